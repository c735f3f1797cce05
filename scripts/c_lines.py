"""Numbers and names as lines of a C initialiser, for the scripts that write golden figures."""


def lines_of(items, width=112):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > width:
            yield line
            line = "   "
        line += " " + item + ","
    yield line
