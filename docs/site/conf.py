# SPDX-License-Identifier: MIT
"""The configuration of Sphinx for the documentation site. make-site writes the pages, then runs Sphinx."""
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

project = "cuevent"
extensions = ["myst_parser", "breathe"]
html_theme = "furo"
html_title = "cuevent"
html_static_path = ["static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}
exclude_patterns = ["_*"]
highlight_language = "text"
primary_domain = "cpp"
myst_heading_anchors = 4  # as GitHub makes them, because the pages are read there too
breathe_default_project = "cuevent"
breathe_domain_by_extension = {"hpp": "cpp", "inc": "cpp"}
breathe_show_include = False
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"


class LinkPages(SphinxPostTransform):
    """Makes links of the names of pages, such as docs/lifetime.md, in the comments of the headers."""
    default_priority = 5

    def run(self):
        if not self.env.docname.startswith("reference/"):
            return
        for text in list(self.document.findall(nodes.Text)):
            parts = re.split(r"\b(docs/[\w-]+)\.md\b", text)
            if len(parts) == 1 or isinstance(text.parent, nodes.reference):
                continue
            made = []
            for number, part in enumerate(parts):
                if number % 2 == 0:
                    made.append(nodes.Text(part))
                    continue
                if part not in self.env.titles:
                    logging.getLogger(__name__).warning("a comment names %s.md, which does not exist", part,
                                                        location=text.parent)
                    made.append(nodes.Text(f"{part}.md"))
                    continue
                title = self.env.titles[part].astext()
                target = self.app.builder.get_relative_uri(self.env.docname, part)
                made.append(nodes.reference("", title, refuri=target, internal=True))
            text.parent.replace(text, made)


class LinkNames(SphinxPostTransform):
    """Makes links of the names of cuevent in the pages: of the first use of each name in a page."""
    default_priority = 5

    def run(self):
        names = set() if self.env.docname.startswith("reference/") else self.names()
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext()
            if name in names and not isinstance(literal.parent, nodes.reference):
                names.remove(name)
                link = addnodes.pending_xref("", refdomain="cpp", reftype="any", reftarget=f"cuevent::{name}",
                                             refdoc=self.env.docname, refexplicit=False, refwarn=False)
                literal.replace_self(link)
                link += literal

    def names(self):
        known = (name for name, *_ in self.env.get_domain("cpp").get_objects())
        ours = (re.fullmatch(r"cuevent::([A-Z]\w+(::\w+)?)", name) for name in known)
        return {found[1] for found in ours if found}


def setup(app):
    app.add_post_transform(LinkPages)
    app.add_post_transform(LinkNames)
