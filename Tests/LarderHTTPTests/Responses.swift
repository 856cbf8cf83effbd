import LarderFiles
import LarderHTTP

/// 2026-01-01 00:00:00 UTC, when the responses of the policy's tests were made.
let made = Timestamp(milliseconds: 1_767_225_600_000)

func after(_ seconds: Double) -> Timestamp { made.advanced(byMilliseconds: Int64(seconds * 1000)) }

/// A date `seconds` after the responses were made.
func date(_ seconds: Int64 = 0) -> String { HTTPDate.text(made.milliseconds / 1000 + seconds) }

/// A response that was made, asked for and received at the same time, with fields in lines of text.
func response(_ status: Int = 200, _ lines: String...) -> HTTPResponseHead {
    HTTPResponseHead(status: status, fields: fields(lines), requested: made, received: made)
}

/// Fields from lines of text.
func fields(_ lines: [String]) -> [HTTPField] {
    lines.map { line in
        let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        return HTTPField(String(parts[0]), String(parts[1]))
    }
}
