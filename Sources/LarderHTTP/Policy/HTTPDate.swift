/// Dates in the three formats of HTTP (RFC 9110, section 5.6.7).
package enum HTTPDate {
    /// Returns seconds since 1970; nil for text that is in none of the formats. Names of days, months and zones are
    /// compared without regard to case. `now` decides the century of a year with two digits: a date that would be more
    /// than fifty years ahead is past. O(1).
    package static func seconds(_ text: String, now: Int64) -> Int64? {
        let bytes = text.utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
        return fixdate(bytes) ?? rfc850(bytes, now: now) ?? asctime(bytes)
    }

    /// A date in the preferred format, `Sun, 06 Nov 1994 08:49:37 GMT`.
    package static func text(_ seconds: Int64) -> String {
        let days = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
        let rest = Int(seconds - days * 86_400)
        let (year, month, day) = civil(days)
        let weekday = weekdays[Int(((days + 3) % 7 + 7) % 7)].prefix(3)
        let clock = [rest / 3600, rest / 60 % 60, rest % 60].map { padded($0, 2) }.joined(separator: ":")
        return "\(capitalized(weekday)), \(padded(day, 2)) \(capitalized(months[month - 1])) \(padded(year, 4)) "
            + "\(clock) GMT"
    }

    private static let weekdays = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    private static func fixdate(_ bytes: [UInt8]) -> Int64? {
        guard bytes.count == 29, isWeekday(bytes[0..<3]), matches(bytes[3..<5], ", "), matches(bytes[7..<8], " "),
            matches(bytes[11..<12], " "), matches(bytes[16..<17], " "), matches(bytes[25...], " gmt")
        else { return nil }
        return seconds(
            year: number(bytes[12..<16]), month: month(bytes[8..<11]), day: number(bytes[5..<7]), time: bytes[17..<25])
    }

    /// `Sunday, 06-Nov-94 08:49:37 GMT`
    private static func rfc850(_ bytes: [UInt8], now: Int64) -> Int64? {
        guard let comma = bytes.firstIndex(of: UInt8(ascii: ",")), bytes.count == comma + 24,
            weekdays.contains(String(decoding: bytes[..<comma], as: UTF8.self))
        else { return nil }
        let rest = Array(bytes[comma...])
        guard matches(rest[0..<2], ", "), matches(rest[4..<5], "-"), matches(rest[8..<9], "-"),
            matches(rest[11..<12], " "), matches(rest[20...], " gmt"), let short = number(rest[9..<11])
        else { return nil }
        let (thisYear, thisMonth, today) = civil(now / 86_400)
        let last = days(thisYear + 50, thisMonth, today) * 86_400 + now % 86_400
        // The latest year with these digits that is not too far ahead.
        for year in stride(from: thisYear / 100 * 100 + 100 + short, through: 0, by: -100) {
            let date = seconds(
                year: year, month: month(rest[5..<8]), day: number(rest[2..<4]), time: rest[12..<20])
            if let date, date <= last { return date }
        }
        return nil
    }

    /// `Sun Nov  6 08:49:37 1994`
    private static func asctime(_ bytes: [UInt8]) -> Int64? {
        guard bytes.count == 24, isWeekday(bytes[0..<3]), matches(bytes[3..<4], " "), matches(bytes[7..<8], " "),
            matches(bytes[10..<11], " "), matches(bytes[19..<20], " ")
        else { return nil }
        let day = bytes[8] == UInt8(ascii: " ") ? number(bytes[9..<10]) : number(bytes[8..<10])
        return seconds(year: number(bytes[20...]), month: month(bytes[4..<7]), day: day, time: bytes[11..<19])
    }

    private static func seconds(year: Int?, month: Int?, day: Int?, time: ArraySlice<UInt8>) -> Int64? {
        let time = Array(time)
        guard let year, let month, let day, matches(time[2..<3], ":"), matches(time[5..<6], ":"),
            let hour = number(time[0..<2]), let minute = number(time[3..<5]), let second = number(time[6..<8]),
            hour < 24, minute < 60, second <= 60, day >= 1, day <= length(of: month, year)
        else { return nil }
        return days(year, month, day) * 86_400 + Int64(hour * 3600 + minute * 60 + second)
    }

    private static func matches(_ bytes: ArraySlice<UInt8>, _ text: String) -> Bool { bytes.elementsEqual(text.utf8) }

    private static func isWeekday(_ bytes: ArraySlice<UInt8>) -> Bool {
        weekdays.contains { bytes.elementsEqual($0.utf8.prefix(3)) }
    }

    private static func month(_ bytes: ArraySlice<UInt8>) -> Int? {
        months.firstIndex { bytes.elementsEqual($0.utf8) }.map { $0 + 1 }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int? {
        var value = 0
        for byte in bytes {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return value
    }

    private static func length(of month: Int, _ year: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    /// Days since 1970 of a date of the Gregorian calendar. Years begin in March here, so that a leap day is the last.
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return Int64(era * 146_097 + dayOfEra - 719_468)
    }

    private static func civil(_ days: Int64) -> (year: Int, month: Int, day: Int) {
        let shifted = Int(days) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }

    private static func capitalized(_ text: some StringProtocol) -> String {
        text.prefix(1).uppercased() + text.dropFirst()
    }
}
