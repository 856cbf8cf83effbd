#if canImport(UIKit) && !os(watchOS)
    public import UIKit

    extension Coder where Value == UIImage {
        /// A secure archive, which keeps the image's scale.
        public static var image: Coder { .archive }
    }
#elseif canImport(AppKit)
    public import AppKit

    extension Coder where Value == NSImage {
        /// PNG.
        public static var image: Coder {
            Coder { image in
                guard let png = image.png else { throw CocoaError(.coderInvalidValue) }
                return png
            } decode: { data in
                guard let image = NSImage(data: data) else { throw CocoaError(.coderReadCorrupt) }
                return image
            }
        }
    }
#endif
