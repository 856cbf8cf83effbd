/// Rows of text in columns.
struct Table {
    private static let width = 120

    private var rows: [[String]]

    init(headings: [String]) {
        rows = [headings]
    }

    mutating func add(_ row: [String]) {
        rows.append(row)
    }

    mutating func add(_ file: String, _ count: WordCount) {
        add([file, "\(count.lines)", "\(count.words)", count.frequent.joined(separator: " ")])
    }

    func print() {
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        for row in rows {
            let cells = row.indices.map { column in
                let padding = String(repeating: " ", count: widths[column] - row[column].count)
                let isNumber = Int(row[column]) != nil
                if column == row.indices.last { return row[column] }
                return isNumber ? padding + row[column] : row[column] + padding
            }
            let line = cells.joined(separator: "  ")
            let cut = line.count > Self.width ? line.prefix(Self.width - 1) + "…" : line.prefix(Self.width)
            Swift.print(cut)
        }
    }
}
