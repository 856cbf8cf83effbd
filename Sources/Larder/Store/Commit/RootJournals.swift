import LarderFiles

/// The journals and temporary manifests in a directory, by generation.
struct RootJournals {
    private(set) var journals: [UInt64] = []
    private(set) var temporaries: [UInt64] = []

    init(in root: OwnedDescriptor, _ fileSystem: any FileSystem) throws(Errno) {
        var (journals, temporaries) = ([UInt64](), [UInt64]())
        try fileSystem.list(root.file) { name, kind in
            guard kind == .regular else { return true }
            switch DirectoryLayout(name) {
            case .journal(let generation): journals.append(generation)
            case .temporaryManifest(let generation): temporaries.append(generation)
            default: break
            }
            return true
        }
        (self.journals, self.temporaries) = (journals, temporaries)
    }
}
