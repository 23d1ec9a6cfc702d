"""The peer: the in-memory tracker most people would write, a heap and a dict, measured in the same run."""

import heapq

Row = tuple[int, int, int]


class HeapAndDict:
    """Rows in a heap by deadline; a dict says which position is tracked under which deadline."""

    def __init__(self) -> None:
        self.deadlines: dict[tuple[int, int], int] = {}
        self.heap: list[Row] = []

    def __len__(self) -> int:
        return len(self.deadlines)

    def add(self, rows: list[Row], cutoff_ms: int) -> list[int]:
        """Offsets of rows that are due or tracked already."""
        refused = []
        for offset, row in enumerate(rows):
            position = row[1:]
            if row[0] <= cutoff_ms or position in self.deadlines:
                refused.append(offset)
                continue
            self.deadlines[position] = row[0]
            heapq.heappush(self.heap, row)
        return refused

    def pop_due(self, count: int, cutoff_ms: int) -> list[Row]:
        rows: list[Row] = []
        while self.heap and self.heap[0][0] <= cutoff_ms and len(rows) < count:
            row = heapq.heappop(self.heap)
            if self.deadlines.pop(row[1:], None) == row[0]:
                rows.append(row)
        return rows

    def contains(self, positions: list[tuple[int, int]]) -> list[bool]:
        return [position in self.deadlines for position in positions]
