import LarderFiles
import Testing

@Suite("The directory of a user's caches")
struct UserDirectoriesTests {
    @Test("follows the XDG rules, and the system's list of users where HOME says nothing")
    func caches() {
        func caches(_ environment: [String: String], home: String? = "/root") -> String? {
            UserDirectories.caches(environment, home: home)
        }
        #expect(caches(["XDG_CACHE_HOME": "/x", "HOME": "/home/ann"]) == "/x")
        for relative in ["", "x", "./x", "~/x"] {
            #expect(caches(["XDG_CACHE_HOME": relative, "HOME": "/home/ann"]) == "/home/ann/.cache")
        }
        for home in ["", "home", "~"] { #expect(caches(["HOME": home]) == "/root/.cache") }
        #expect(caches([:]) == "/root/.cache" && caches(["HOME": "/"]) == "/.cache")
        for none in ["", "nowhere"] { #expect(caches(["XDG_CACHE_HOME": "x", "HOME": none], home: nil) == nil) }
        #expect(caches([:], home: "") == nil)
    }
}
