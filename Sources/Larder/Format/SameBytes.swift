import Foundation

extension String {
    /// True when both have the same UTF-8 bytes; `==` calls the composed and the decomposed spelling of "é" equal. O(length).
    func hasSameBytes(as other: String) -> Bool {
        let outcome = utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right in
                left.count == right.count
                    && (left.isEmpty || memcmp(left.baseAddress!, right.baseAddress!, left.count) == 0)
            }
        }
        return (outcome ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
