import Testing

@testable import Larder

@Suite("The tombstones among the files")
struct TombstoneFilesTests {
    private let removal = EntryFile.Removal.key(Key("k"))

    @Test("one that is taken back leaves the one that it replaced")
    func takenBack() {
        var files = TombstoneFiles()
        #expect(files.insert(1, of: removal) == nil)
        #expect(files.insert(2, of: removal) == nil, "the second may be taken back")
        files.remove([2])
        #expect(files.numbers == [1] && files.hasTombstone(of: Key("k")))
        #expect(files.insert(3, of: removal) == nil)
        #expect(files.insert(4, of: removal) == 1)
        files.remove(replaced: 1)
        #expect(files.numbers == [3, 4])
        files.remove([3, 4])
        #expect(files.isEmpty && !files.hasTombstone(of: Key("k")))
    }

    @Test("one that can be read only later is not the newest")
    func late() {
        var files = TombstoneFiles()
        #expect(files.insert(9, of: removal) == nil)
        #expect(files.insert(5, of: removal) == nil)
        #expect(files.insert(12, of: removal) == 5)
        files.remove(replaced: 5)
        files.remove([12])
        #expect(files.numbers == [9] && files.hasTombstone(of: Key("k")))
    }
}
