import Foundation
import LarderFiles

extension PropertyList {
    /// Reads a binary or an XML list; nil when it is neither, or damaged. O(n).
    init?(_ data: Data) {
        let list = data.withUnsafeBytes { bytes in
            bytes.has("bplist00", at: 0)
                ? BinaryPropertyListReader.read(bytes) : XMLPropertyListReader.read(bytes)
        }
        guard let list else { return nil }
        self = list
    }
}
