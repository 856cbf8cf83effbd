import Foundation
import LarderFiles

/// Reads manifest and journals into an index. A bad line is skipped and counted; a newer format is refused.
struct IndexReader {
    let fileSystem: any FileSystem
    let root: SharedDescriptor
    let path: String

    func read(_ listing: RootListing, into replay: inout IndexReplay) throws(CacheError) {
        let manifest = try readManifests(listing, into: &replay)
        var journals = listing.journals
        replay.journals.generations = journals
        if case .intact(let generation) = manifest {
            replay.journals.savedGeneration = generation
            journals.removeAll { $0 < generation }
        }
        for generation in journals {
            try readJournal(generation, isLast: generation == journals.last, into: &replay)
        }
        replay.journals.isDamaged = replay.damagedLines > 0 || !isComplete(journals, manifest)
    }

    private enum Manifest {
        case absent
        /// The generation is 0 when not even that can be read.
        case damaged(generation: UInt64)
        case intact(generation: UInt64)

        var generation: UInt64 {
            switch self {
            case .absent: 0
            case .damaged(let generation), .intact(let generation): generation
            }
        }
    }

    /// Reads the manifest. Where there are two, the format has been changed: the higher generation wins.
    private func readManifests(
        _ listing: RootListing, into replay: inout IndexReplay
    ) throws(CacheError) -> Manifest {
        replay.journals.manifests = listing.manifests
        guard listing.manifests.contains(.propertyList) else {
            return listing.manifests.isEmpty ? .absent : try readManifest(into: &replay)
        }
        let content = try readPropertyList()
        if listing.manifests.contains(.json) {
            var json = replay
            let manifest = try readManifest(into: &json)
            if content.map({ manifest.generation > $0.generation }) ?? true { replay = json }
            if let content, manifest.generation > content.generation { return manifest }
        }
        guard let content else {
            replay.damagedLines += 1
            return .damaged(generation: 0)
        }
        for record in content.records { replay.applyOfManifest(record) }
        replay.damagedLines += content.damagedRecords
        return content.damagedRecords == 0
            ? .intact(generation: content.generation) : .damaged(generation: content.generation)
    }

    /// Nil when it is damaged.
    private func readPropertyList() throws(CacheError) -> PropertyListManifest.Content? {
        let name = DirectoryLayout.manifest(.propertyList).name
        var bytes: [UInt8] = []
        do {
            guard let (file, size) = try fileSystem.openRegular(name, in: root.file),
                size <= PropertyListManifest.longest
            else { return nil }
            bytes = [UInt8](repeating: 0, count: size)
            guard try fileSystem.read(file.file, at: 0, into: &bytes) == size else { return nil }
        } catch .io {
            return nil
        } catch {
            throw CacheError(error, doing: "read \(name)", path: path)
        }
        let content = PropertyListManifest.content(of: Data(bytes))
        if let content, content.version > Record.version { throw newer(content.version) }
        return content
    }

    /// True when the journals that go with the manifest are there without a gap.
    private func isComplete(_ journals: [UInt64], _ manifest: Manifest) -> Bool {
        let first: UInt64 =
            switch manifest {
            case .absent: 1
            case .intact(let generation): generation
            case .damaged: 0
            }
        return first > 0 && journals == Array(first..<first + UInt64(journals.count)) && !journals.isEmpty
    }

    private func readManifest(into replay: inout IndexReplay) throws(CacheError) -> Manifest {
        var generation: UInt64?
        var hasEnd = false
        let damagedBefore = replay.damagedLines
        let outcome = try readLines(of: DirectoryLayout.manifest(.json).name, isManifest: true, into: &replay) {
            line, _ in
            if case .record(.header(_, let found, _)) = line { generation = found }
            if case .end = line { hasEnd = true }
        }
        guard outcome.isWhole, hasEnd, replay.damagedLines == damagedBefore, let generation, generation > 0 else {
            if replay.damagedLines == damagedBefore { replay.damagedLines += 1 }
            return .damaged(generation: generation ?? 0)
        }
        return .intact(generation: generation)
    }

    private func readJournal(_ generation: UInt64, isLast: Bool, into replay: inout IndexReplay) throws(CacheError) {
        var records = 0
        var endsClosed = false
        var hasHeader = false
        var closedLength = 0
        let outcome = try readLines(of: DirectoryLayout.journal(generation).name, into: &replay) { line, length in
            switch line {
            case .record(.header): hasHeader = true
            case .record(.closed):
                endsClosed = true
                closedLength = length + 1
            case .record:
                records += 1
                endsClosed = false
            case .damaged: endsClosed = false
            case .end, .blank: break
            }
        }
        if !outcome.isWhole || !hasHeader { replay.damagedLines += 1 }
        replay.journals.records += records
        guard isLast else { return }
        replay.journals.endsClosed = endsClosed
        replay.journals.closedLength = closedLength
        replay.journals.length = outcome.length
        replay.journals.isBroken = !outcome.isWhole
    }

    /// Applies every line of a file. A file that the disk cannot read to its end counts as damaged, as a lost one does;
    /// one that may be readable the next time (no descriptors left, no permission) is an error.
    private func readLines(
        of name: FileName, isManifest: Bool = false, into replay: inout IndexReplay,
        _ look: (Line, _ length: Int) -> Void
    ) throws(CacheError) -> (length: Int, isWhole: Bool) {
        let what = "read \(name)"
        let opened: (file: SharedDescriptor, size: Int)?
        do {
            opened = try fileSystem.openRegular(name, in: root.file)
        } catch .io {
            return (0, false)
        } catch {
            throw CacheError(error, doing: what, path: path)
        }
        guard let (file, _) = opened else { return (0, false) }
        do {
            let length = try LineReader(fileSystem: fileSystem).forEachLine(of: file.file) { bytes throws(CacheError) in
                let line = Line(bytes)
                look(line, bytes.count)
                switch line {
                case .damaged: replay.damagedLines += 1
                case .record(.header(let version, _, _)) where version > Record.version: throw newer(version)
                case .record(let record): isManifest ? replay.applyOfManifest(record) : replay.applyOfJournal(record)
                case .end, .blank: break
                }
            }
            return (length, true)
        } catch {
            switch error {
            case .stopped(let error): throw error
            case .reading(.io): return (0, false)
            case .reading(let error): throw CacheError(error, doing: what, path: path)
            }
        }
    }

    private func newer(_ version: UInt64) -> CacheError {
        CacheError(
            code: .newerFormat,
            message:
                "The directory was written by a newer Larder (format \(version), this one knows \(Record.version)).",
            path: path)
    }
}
