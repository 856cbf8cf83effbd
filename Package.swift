// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InferIsolatedConformances"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

// The privacy manifest means something on Apple platforms only; elsewhere it would just add a resource bundle.
#if canImport(Darwin)
    let privacy: [Resource] = [.copy("PrivacyInfo.xcprivacy")]
    let excluded: [String] = []
    // Homebrew's folders are searched only this way. Elsewhere they need not be, and SwiftPM warns of hiredis's flags.
    let hiredis: String? = "hiredis"
#else
    let privacy: [Resource] = []
    let excluded = ["PrivacyInfo.xcprivacy"]
    let hiredis: String? = nil
#endif

let package = Package(
    name: "Larder",
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "Larder", targets: ["Larder"]),
        .library(name: "LarderTesting", targets: ["LarderTesting"]),
        .library(name: "LarderHTTP", targets: ["LarderHTTP"]),
        .library(name: "LarderRedis", targets: ["LarderRedis"]),
    ],
    traits: [
        .default(enabledTraits: ["FoundationExtras"]),
        .trait(
            name: "FoundationExtras",
            description: "Secure archives, untyped property lists: all of Foundation in a static program."),
        .trait(
            name: "Zlib",
            description: "Coder.compressed() where Apple's Compression is missing; needs zlib (Debian: zlib1g-dev)."),
        .trait(
            name: "SQLite",
            description: "importYYCache(from:), rows of larder-bench; needs SQLite (Debian: libsqlite3-dev)."),
        .trait(
            name: "Curl", description: "CurlTransport of LarderHTTP; needs libcurl (Debian: libcurl4-openssl-dev)."),
        .trait(name: "Redis", description: "LarderRedis; needs hiredis (Debian: libhiredis-dev)."),
        .trait(name: "LMDB", description: "Rows for LMDB in larder-bench; needs its headers (Debian: liblmdb-dev)."),
    ],
    targets: [
        .target(name: "LarderFoundation", swiftSettings: settings),
        .target(
            name: "LarderFiles",
            dependencies: ["LarderFoundation", .target(name: "CZlib", condition: .when(traits: ["Zlib"]))],
            swiftSettings: settings),
        .systemLibrary(name: "CZlib"),
        .target(
            name: "Larder",
            dependencies: [
                "LarderFiles", "LarderFoundation", .target(name: "CSQLite", condition: .when(traits: ["SQLite"])),
            ], exclude: excluded, resources: privacy, swiftSettings: settings),
        .target(name: "LarderTesting", dependencies: ["Larder", "LarderFiles"], swiftSettings: settings),
        .target(
            name: "LarderHTTP",
            dependencies: [
                "Larder", "LarderFiles", "LarderFoundation", .target(name: "CCurl", condition: .when(traits: ["Curl"])),
            ], swiftSettings: settings),
        .systemLibrary(name: "CCurl"),
        .target(
            name: "LarderRedis",
            dependencies: ["Larder", "LarderFiles", .target(name: "CHiredis", condition: .when(traits: ["Redis"]))],
            swiftSettings: settings),
        .systemLibrary(
            name: "CHiredis", pkgConfig: hiredis, providers: [.brew(["hiredis"]), .apt(["libhiredis-dev"])]),
        .executableTarget(
            name: "larder-bench",
            dependencies: [
                "Larder", "LarderFiles", "LarderHTTP", "LarderHTTPTestSupport", "LarderTesting",
                .target(name: "CSQLite", condition: .when(traits: ["SQLite"])),
                .target(name: "CLMDB", condition: .when(traits: ["LMDB"])),
                .target(name: "LarderRedis", condition: .when(traits: ["Redis"])),
                .target(name: "CHiredis", condition: .when(traits: ["Redis"])),
            ],
            path: "Sources/LarderBench", swiftSettings: settings),
        .systemLibrary(name: "CSQLite"),
        .systemLibrary(name: "CLMDB"),
        .executableTarget(
            name: "QuickStart", dependencies: ["Larder"], path: "Examples/QuickStart", swiftSettings: settings),
        .executableTarget(
            name: "DownloadFolder", dependencies: ["Larder"], path: "Examples/DownloadFolder",
            swiftSettings: settings),
        .executableTarget(
            name: "MoveEGOCache", dependencies: ["Larder"], path: "Examples/MoveEGOCache", swiftSettings: settings),
        .executableTarget(
            name: "TypedValues", dependencies: ["Larder"], path: "Examples/TypedValues", swiftSettings: settings),
        .executableTarget(
            name: "MemoryBudget", dependencies: ["Larder"], path: "Examples/MemoryBudget", swiftSettings: settings),
        .executableTarget(
            name: "CachedPages", dependencies: ["LarderHTTP"], path: "Examples/CachedPages", swiftSettings: settings),
        .executableTarget(
            name: "KillChild", dependencies: ["Larder", "LarderTesting", "LarderTestSupport"], path: "Tests/KillChild",
            swiftSettings: settings),
        .executableTarget(
            name: "SharingChild", dependencies: ["Larder", "LarderFiles", "LarderTesting", "LarderTestSupport"],
            path: "Tests/SharingChild", swiftSettings: settings),
        .target(
            name: "LarderSimulation", dependencies: ["Larder", "LarderFiles", "LarderTesting"],
            path: "Tests/LarderSimulation", swiftSettings: settings),
        .executableTarget(
            name: "Simulate", dependencies: ["LarderFiles", "LarderSimulation"], path: "Tests/Simulate",
            swiftSettings: settings),
        .executableTarget(
            name: "LockChild", dependencies: ["LarderFiles"], path: "Tests/LockChild", swiftSettings: settings),
        .target(
            name: "LarderTestSupport", dependencies: ["Larder", "LarderFiles", "LarderTesting"],
            path: "Tests/LarderTestSupport", swiftSettings: settings),
        .testTarget(
            name: "LarderFilesTests", dependencies: ["LarderFiles", "LarderTesting", "LarderTestSupport", "LockChild"],
            swiftSettings: settings),
        // As in the project of a user who has changed no setting yet.
        .testTarget(
            name: "LarderTestingTests", dependencies: ["Larder", "LarderTesting"],
            swiftSettings: [.swiftLanguageMode(.v5)]),
        .target(
            name: "LarderHTTPTestSupport", dependencies: ["LarderFiles", "LarderFoundation", "LarderHTTP"],
            path: "Tests/LarderHTTPTestSupport", swiftSettings: settings),
        .executableTarget(
            name: "HTTPBridge", dependencies: ["LarderHTTP", "LarderHTTPTestSupport"], path: "Tests/HTTPBridge",
            swiftSettings: settings),
        .executableTarget(
            name: "HTTPChild", dependencies: ["Larder", "LarderHTTP", "LarderHTTPTestSupport", "LarderTesting"],
            path: "Tests/HTTPChild", swiftSettings: settings),
        .testTarget(
            name: "LarderHTTPTests",
            dependencies: [
                "Larder", "LarderFiles", "LarderHTTP", "LarderHTTPTestSupport", "LarderTesting", "LarderTestSupport",
                "HTTPChild",
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "RedisChild", dependencies: ["Larder", "LarderFiles", "LarderRedis"], path: "Tests/RedisChild",
            swiftSettings: settings),
        .testTarget(
            name: "LarderRedisTests",
            dependencies: [
                "Larder", "LarderFiles", "LarderRedis", "LarderTesting", "LarderTestSupport", "RedisChild",
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "SharedCache", dependencies: ["Larder", "LarderRedis"], path: "Examples/SharedCache",
            swiftSettings: settings),
        .testTarget(
            name: "LarderTests",
            dependencies: [
                "Larder", "LarderFiles", "LarderTesting", "LarderTestSupport", "LarderSimulation", "KillChild",
                "SharingChild", "Simulate", "QuickStart",
                .target(name: "CSQLite", condition: .when(traits: ["SQLite"])),
            ],
            swiftSettings: settings),
    ]
)
