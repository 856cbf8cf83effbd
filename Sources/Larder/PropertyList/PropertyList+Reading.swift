import Foundation
import LarderFiles

extension PropertyList {
    /// Reads a binary or an XML list; nil when it is neither, or damaged, or mentions more than `mostObjects`. O(n).
    init?(_ data: Data, mostObjects: Int = .max) {
        let list = data.withUnsafeBytes { bytes in
            bytes.has("bplist00", at: 0)
                ? BinaryPropertyListReader.read(bytes, mostObjects: mostObjects) : XMLPropertyListReader.read(bytes)
        }
        guard let list else { return nil }
        self = list
    }
}
