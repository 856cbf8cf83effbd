@main
struct KillChild {
    static func main() {}
}
