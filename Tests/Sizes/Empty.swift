// A program that does nothing. Built by .ci/sizes, which measures programs with and without Larder.

@main
struct Program {
    static func main() {}
}
