#if FoundationExtras || canImport(Darwin)
    import Foundation
    import LarderFiles

    /// Inspects a keyed archive before Foundation reads it.
    ///
    /// On Linux `NSKeyedUnarchiver` traps where it throws elsewhere: on an archive of another class, with unknown
    /// classes, or with dangling references (swift-corelibs-foundation 6.2). A carefully forged archive can still make
    /// it trap.
    struct KeyedArchive {
        private let objects: [PropertyList]
        private let root: Int

        /// Nil when the bytes are not a keyed archive with an object at its root.
        init?(_ data: Data) {
            guard let list = PropertyList(data), list["$archiver"]?.string == "NSKeyedArchiver",
                let objects = list["$objects"]?.array,
                case .reference(let root)? = list["$top"]?[NSKeyedArchiveRootObjectKey],
                objects.indices.contains(root), objects.allSatisfy({ Self.referencesAreInside($0, objects.count) })
            else { return nil }
            self.objects = objects
            self.root = root
        }

        /// Returns the object of a secure archive; nil when it is of another type.
        static func object<Object: NSObject & NSSecureCoding>(_ type: Object.Type, in data: Data) throws -> Object? {
            if FoundationTraits.archivingTraps, KeyedArchive(data)?.isReadable(as: type) != true { return nil }
            let classes = [type as AnyClass] + plainClasses
            return try NSKeyedUnarchiver.unarchivedObject(ofClasses: classes, from: data) as? Object
        }

        /// Foundation's own value types, which are allowed inside every object.
        static let plainClasses: [AnyClass] = [
            NSArray.self, NSDictionary.self, NSSet.self, NSString.self, NSNumber.self, NSData.self, NSDate.self,
            NSURL.self, NSUUID.self, NSNull.self,
        ]

        /// Whether Foundation can read it safely: the root is of this type, all classes are known and support secure
        /// coding, and a collection holds plain values, the only ones that Foundation accepts in it.
        func isReadable<Object: NSObject>(as type: Object.Type) -> Bool {
            var known: [Int: AnyClass] = [:]
            guard let rootClass = classOfObject(root, &known), rootClass is Object.Type else { return false }
            let isCollection = [NSArray.self, NSDictionary.self, NSSet.self].contains { Self.isKind(rootClass, of: $0) }
            return objects.indices.allSatisfy { position in
                guard objects[position]["$class"] != nil else { return true }
                guard let found = classOfObject(position, &known), found is any NSSecureCoding.Type else {
                    return false
                }
                return !isCollection || Self.plainClasses.contains { Self.isKind(found, of: $0) }
            }
        }

        private static func isKind(_ found: AnyClass, of wanted: AnyClass) -> Bool {
            func isKind<Wanted>(_ wanted: Wanted.Type) -> Bool { found is Wanted.Type }
            return _openExistential(wanted, do: isKind)
        }

        /// Finds the class of an object; `known` caches the classes by the position of their description.
        private func classOfObject(_ position: Int, _ known: inout [Int: AnyClass]) -> AnyClass? {
            switch objects[position] {
            case .string(let string): return string == "$null" ? nil : NSString.self
            case .integer, .large, .real, .boolean: return NSNumber.self
            case .data: return NSData.self
            case .dictionary:
                guard case .reference(let number)? = objects[position]["$class"] else { return nil }
                if let found = known[number] { return found }
                known[number] = objects[number]["$classname"]?.string.flatMap { NSClassFromString($0) }
                return known[number]
            case .array, .date, .reference: return nil
            }
        }

        private static func referencesAreInside(_ list: PropertyList, _ count: Int) -> Bool {
            switch list {
            case .reference(let number): number < count
            case .array(let elements): elements.allSatisfy { referencesAreInside($0, count) }
            case .dictionary(let pairs): pairs.allSatisfy { referencesAreInside($0.value, count) }
            default: true
            }
        }
    }
#endif
