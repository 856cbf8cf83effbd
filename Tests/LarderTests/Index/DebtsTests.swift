import LarderFiles
import Testing

@testable import Larder

@Suite("What an index owes")
struct DebtsTests {
    private static func index() -> Index {
        let shards = Array(repeating: Shard(), count: Index.shardCount)
        return Index(shards, nil, keepsOrder: false, at: Timestamp(milliseconds: 0))
    }

    @Test("a file set aside is forgotten when its new name is deleted, not its old one")
    func forgetAside() {
        let index = Self.index()
        let key = Key("a")
        index.withShard(of: key) { $0.debts.settle([], hiding: [.last(FileID(5), of: key)]) }
        // Someone who listed the files before deletes the old name, which is gone.
        index.forgetAside([FileID(5)])
        #expect(index.asideCount == 1)
        index.forgetAside([FileID(DirectoryLayout.asideNumber(5))])
        #expect(index.asideCount == 0)
    }

    @Test("one in a segment, which has no name, is forgotten with its entry")
    func forgetAsideInSegment() throws {
        let index = Self.index()
        let key = Key("a")
        let file = FileID(number: 5, place: try #require(Place(segment: 3, offset: 4096)))
        index.withShard(of: key) { $0.debts.settle([], hiding: [.last(file, of: key)]) }
        index.forgetAside([FileID(5)])
        #expect(index.asideCount == 1)
        index.forgetAside([file])
        #expect(index.asideCount == 0)
    }
}
