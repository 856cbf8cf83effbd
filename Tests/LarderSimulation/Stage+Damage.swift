import LarderTesting

/// Damage to the files of the directory, while processes have them open or not.
extension Stage {
    func play(_ damage: Story.Damage) {
        switch damage {
        case .note:
            files.tamper { image in
                for file in Story.Damage.File.allCases {
                    for path in Self.paths(file, image) { noted[path] = image.content(at: path) }
                }
            }
            return
        case .flipBit(let file, let position):
            change(file, position) { content, _ in
                if !content.isEmpty { content[position / 8 % content.count] ^= 1 << UInt8(position % 8) }
            }
        case .cut(let file, let position, let atLine):
            change(file, position) { content, _ in
                if content.isEmpty { return }
                var end = position % content.count
                if atLine { end = content[..<end].lastIndex(of: 10).map { $0 + 1 } ?? 0 }
                content.removeSubrange(end...)
            }
        case .delete(let file, let position):
            files.tamper { image in
                if let path = Self.path(file, position, image) { image.remove(at: path) }
            }
        case .restore(let file, let position):
            files.tamper { image in
                guard let path = Self.path(file, position, image), let old = noted[path] else { return }
                // Renamed over it: whoever has it open keeps the newer one.
                image.remove(at: path)
                image.add(old, at: path)
            }
        }
        noteDamage(ofValues: damage.file == .segment || damage.file == .entry)
    }

    private func change(
        _ file: Story.Damage.File, _ position: Int, _ change: (inout [UInt8], String) -> Void
    ) {
        files.tamper { image in
            guard let path = Self.path(file, position, image), var content = image.content(at: path) else { return }
            change(&content, path)
            image.setContent(content, at: path)
        }
    }

    private static func path(_ file: Story.Damage.File, _ position: Int, _ image: MemoryImage) -> String? {
        let paths = paths(file, image)
        return paths.isEmpty ? nil : paths[position % paths.count]
    }

    private static func paths(_ file: Story.Damage.File, _ image: MemoryImage) -> [String] {
        func names(_ path: String, _ isWanted: (String) -> Bool) -> [String] {
            image.names(at: path).filter(isWanted).map { "\(path)/\($0)" }
        }
        return switch file {
        case .manifest: names("/cache") { $0.hasPrefix("manifest") }
        case .journal: names("/cache") { $0.hasPrefix("journal-") }
        case .page: names("/cache") { $0 == "shared" }
        case .segment: names("/cache/entries/segments") { _ in true }
        case .entry: names("/cache/entries") { $0 != "segments" }
        }
    }
}

extension Story.Damage {
    fileprivate var file: File? {
        switch self {
        case .flipBit(let file, _), .cut(let file, _, _), .delete(let file, _), .restore(let file, _): file
        case .note: nil
        }
    }
}
