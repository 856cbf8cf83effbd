import Foundation

/// Whether this is a long run of the tests: `LARDER_SAMPLE=1` tries all crash points, and the larger numbers elsewhere.
package enum LongRun {
    package static let isOn = ProcessInfo.processInfo.environment["LARDER_SAMPLE"] == "1"
}
