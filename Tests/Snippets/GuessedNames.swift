// Names from Foundation, YYCache and FusionCache. The compiler must name ours; `.ci/snippets` verifies its messages.

import Foundation
import Larder

func guess(_ cache: Cache<Int>, _ disk: DiskCache, _ memory: MemoryCache<String, Int>) async throws {
    _ = try Cache<Int>("numbers")  // renamed to 'init(name:)'
    _ = await cache.object(forKey: "k")  // renamed to 'value(forKey:)'
    _ = await cache.get("k")  // renamed to 'value(forKey:)'
    _ = try await cache.getOrSet("k") { 1 }  // renamed to 'value(forKey:fetch:)'
    try await cache.setObject(1, forKey: "k")  // renamed to 'setValue(_:forKey:)'
    try await cache.set("k", 1)  // renamed to 'setValue(_:forKey:)'
    try await cache.removeObject(forKey: "k")  // renamed to 'removeValue(forKey:)'
    try await cache.removeAllObjects()  // renamed to 'removeAll()'
    try await cache.clear()  // renamed to 'removeAll()'
    _ = cache.allKeys  // renamed to 'keys()'
    _ = await cache.contains("k")  // renamed to 'hasValue(forKey:)'
    _ = cache["k"]  // use value(forKey:) and setValue(_:forKey:)

    _ = disk.object(forKey: "k")  // renamed to 'value(_:forKey:)'
    _ = disk.get("k")  // renamed to 'data(forKey:)'
    try disk.setObject(1, forKey: "k")  // renamed to 'setValue(_:forKey:)'
    try disk.set(Data(), forKey: "k")  // renamed to 'setData(_:forKey:)'
    try disk.removeAllObjects()  // renamed to 'removeAll()'
    try disk.clear()  // renamed to 'removeAll()'
    _ = disk.allKeys  // renamed to 'keys()'

    _ = memory.object(forKey: "k")  // renamed to 'value(forKey:)'
    memory.setObject(1, forKey: "k", cost: 1)  // renamed to 'setValue(_:forKey:cost:)'
    memory.removeAllObjects()  // renamed to 'removeAll()'
    _ = memory.allKeys  // renamed to 'keys()'
}
