import Testing

/// A process killed inside its n-th system call, and a disk that loses power there.
///
/// The table is operation × mode × point: the operations are the rows, each of which has its modes, and `KillDriver`
/// tries the points. A new operation is a new row.
@Suite("Every crash point", .storm)
struct KillTableTests {
    /// A row in one of its modes.
    struct Case: Sendable, CustomTestStringConvertible {
        let row: any KillRow
        let mode: KillMode

        var testDescription: String { "\(row.name), \(mode.name)" }

        func killEverywhere() async throws { try await Self.killEverywhere(row, mode) }

        private static func killEverywhere<Row: KillRow>(_ row: Row, _ mode: KillMode) async throws {
            try await KillDriver(row, mode).killEverywhere()
        }
    }

    private static let rows: [[any KillRow]] = [
        DayRow.all, [LimitRow(), FetchRow()],
        [NamespaceClearRow(), RootClearRow(), RootClearPowerCutRow(), TagClearRow()],
        RemovedTwiceRow.all, FullDiskClearRow.all, [DeletingRow(), RenewalRow()],
        [CleaningRow(), CleaningPowerCutRow()], FirstSegmentRow.all, UnreadableSegmentRow.all,
        [FirstChangeRow(), ManifestFormatRow(), LargePayloadRow()], TakenBackRow.all,
    ]

    /// Each row in one of its modes, or in all of them when everything is tried.
    private static let cases = rows.joined().flatMap { row in
        Sample.few(1, of: row.modes.map { Case(row: row, mode: $0) }, for: row.name)
    }

    @Test("after a kill in any of its calls, all promises of an operation hold", arguments: cases)
    func killed(operation: Case) async throws {
        try await operation.killEverywhere()
    }
}
