// SPDX-License-Identifier: MIT
int run();

int main() { return run(); }
