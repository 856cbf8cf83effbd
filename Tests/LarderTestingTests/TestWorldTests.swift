import Larder
import LarderTesting
import Testing
