package smuggling

import (
	"fmt"
	"strings"
)

// chunkSizes spells the size of a chunk of five bytes, and of the last one.
func chunkSizes() (f family) {
	body := func(want verdict, size string) {
		f.add(want, fmt.Sprintf("size %q", size), post(size+"\r\nhello\r\n0\r\n\r\n", chunked))
	}
	for _, size := range []string{"5", "05", "005", "0000000000000005"} {
		body(serve, size)
	}
	for _, size := range []string{
		"", " ", " 5", "5 ", "\t5", "5\t", "+5", "-5", "0x5", "0X5", "5h", "5L", "5.", "5.0", "5,", "5,5", "5 5", "'5'", "\"5\"", "5\x00", "\x005", "5\x0b", "5\x0c", "5\xa0", "\xa05", "5\r",
		"\r5", "5\n", "\n5", "5\r\r", "5_0", "_5", "g", "5g", "\uff15", "\u0665", "00000000000000005", "100000000000000005", "10000000000000005", "ffffffffffffffff", "8000000000000000", "7fffffffffffffff",
		"fffffffffffffffb", "ffffffff00000005", "-0", "+0", "0x0", "5#", "5/", "5\\", "%35", "5=", "5:", "(5)", "1e1x", "\ufeff5",
	} {
		body(refuse, size)
	}
	// A length of 32 bits, to those who count that far only, is five.
	f.add(either, "size 100000005", post("100000005\r\nhello\r\n0\r\n\r\n"+hidden, chunked))
	f.add(either, "size longer than what comes", post("ffff\r\nhello\r\n0\r\n\r\n"+hidden, chunked))
	for _, size := range []string{"00", "000", "0000000000000000"} {
		f.add(serve, fmt.Sprintf("last size %q", size), post("5\r\nhello\r\n"+size+"\r\n\r\n", chunked))
	}
	for _, size := range []string{"", " 0", "0 ", "0\t", "-0", "+0", "0x0", "0.0", "0\x00", "00000000000000000", "0\x0b", "0\xa0", "\t0", "0h", "o", "10000000000000000"} {
		f.add(refuse, fmt.Sprintf("last size %q", size), post("5\r\nhello\r\n"+size+"\r\n\r\n"+hidden, chunked))
	}
	for _, letters := range []string{"a", "A"} {
		f.add(serve, "size "+letters, post(letters+"\r\nhelloworld\r\n0\r\n\r\n", chunked))
	}
	f.add(serve, "no data at all", post("0\r\n\r\n", chunked))
	f.add(serve, "many small chunks", post(strings.Repeat("1\r\nx\r\n", 200)+"0\r\n\r\n", chunked))
	f.add(serve, "data that looks like a chunk", post("10\r\n0\r\n\r\nGET / HTTP/\r\n0\r\n\r\n", chunked))
	f.add(serve, "a request as data", post(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden), chunked))
	return f
}

// chunkExtensions are read by few and understood by none.
func chunkExtensions() (f family) {
	long := strings.Repeat("x", 200)
	for _, extension := range []string{";", ";a", ";a=b", ";a=\"b\"", ";a;b;c", "; a", ";a =b", ";a= b", ";" + long, ";a=\"\\\"\"", ";=", ";;;;", ";chunked", ";0", ";a=\"b\";c", ";a=b ", "; "} {
		f.add(either, fmt.Sprintf("%.20q", extension), post("5"+extension+"\r\nhello\r\n0\r\n\r\n", chunked))
		f.add(either, fmt.Sprintf("%.20q at the end", extension), post("5\r\nhello\r\n0"+extension+"\r\n\r\n", chunked))
	}
	for _, extension := range []string{
		";a\n", ";\n", ";a\r", ";a\rb", ";a\nb", ";a\x00", ";\x0b", ";a\x7f", ";\r\r", ";a\x01b", ";a=\"\r\n\"", ";a=\"\n\"", ";\x85", ";\xff", "\t;a", ";a\tb", " ;a", "a=b", " a=b", ",a=b", ";a=\"", ";\"", ";a=\"b\\\"", ";a=\"b\";c=\"",
	} {
		f.add(refuse, fmt.Sprintf("%q", extension), post("5"+extension+"\r\nhello\r\n0\r\n\r\n", chunked))
		f.add(refuse, fmt.Sprintf("%q at the end", extension), post("5\r\nhello\r\n0"+extension+"\r\n\r\n"+hidden, chunked))
	}
	// The line that ends for one reader at the LF hides a chunk from the other.
	f.add(refuse, "TERM.EXT", post("2;\nxx\r\n4c\r\n0\r\n\r\n"+hidden, chunked))
	f.add(refuse, "EXT.TERM", post("4c;\nab\r\n0\r\n\r\n"+hidden, chunked))
	f.add(refuse, "TERM.EXT with CR", post("2;\rxx\r\n4c\r\n0\r\n\r\n"+hidden, chunked))
	f.add(refuse, "an extension without end", post("5;"+strings.Repeat("a", 8000)+"\r\nhello\r\n0\r\n\r\n", chunked))
	f.add(refuse, "many extensions", post(strings.Repeat("1;"+long+"\r\nx\r\n", 100)+"0\r\n\r\n", chunked))
	return f
}

// chunkEnds ends chunks and bodies in every way but CRLF.
func chunkEnds() (f family) {
	for _, end := range []string{"", "\n", "\r", "\n\r", "\r\r\n", " \r\n", "\t\r\n", "x\r\n", "xx", "\x00\r\n", "\r\x00", "\r\n\r\n", "\r\n\n", "\n\n", "\x0b\n"} {
		f.add(refuse, fmt.Sprintf("data and %q", end), post("5\r\nhello"+end+"0\r\n\r\n", chunked))
		f.add(refuse, fmt.Sprintf("data and %q, then a request", end), post("5\r\nhello"+end+"0\r\n\r\n"+hidden, chunked))
	}
	for _, end := range []string{"\n", "\r", "\n\r", "\r\r\n", " \r\n", "\x00\r\n", "\r\x00\n", "\x0b\n", "\n\n"} {
		f.add(refuse, fmt.Sprintf("size and %q", end), post("5"+end+"hello\r\n0\r\n\r\n", chunked))
		f.add(refuse, fmt.Sprintf("last size and %q", end), post("5\r\nhello\r\n0"+end+"\r\n"+hidden, chunked))
		f.add(refuse, fmt.Sprintf("the end is %q", end), post("5\r\nhello\r\n0\r\n"+end+hidden, chunked))
	}
	f.add(refuse, "no end at all", post("5\r\nhello\r\n0\r\n"+hidden, chunked))
	f.add(refuse, "data longer than its size", post("5\r\nhello!\r\n0\r\n\r\n", chunked))
	f.add(refuse, "data shorter than its size", post("6\r\nhello\r\n0\r\n\r\n", chunked))
	f.add(refuse, "no size", post("\r\nhello\r\n0\r\n\r\n", chunked))
	f.add(refuse, "no chunks, only data", post("hello", chunked))
	f.add(refuse, "an empty line before the first size", post("\r\n5\r\nhello\r\n0\r\n\r\n", chunked))
	f.addOpen(serve, "a request after the end", post("0\r\n\r\n"+hidden, chunked))
	f.addOpen(either, "an empty line after the end", post("0\r\n\r\n\r\n"+hidden, chunked))
	return f
}

// trailers come after the last chunk.
func trailers() (f family) {
	with := func(want verdict, trailer string, lines ...string) {
		f.add(want, fmt.Sprintf("%.40q", trailer), post("5\r\nhello\r\n0\r\n"+trailer+"\r\n\r\n", append([]string{chunked}, lines...)...))
	}
	with(serve, "X-Sum: 1")
	with(serve, "X-Sum: 1\r\nX-Other: 2")
	with(serve, "X-Sum: 1", "Trailer: X-Sum")
	with(serve, "X-Sum:")
	for _, trailer := range []string{
		"Content-Length: 5", "content-length: 0", "Transfer-Encoding: chunked", "Host: evil.test", "Connection: close", "Connection: keep-alive", "X-Forwarded-For: 6.6.6.6", "X-Real-Ip: 6.6.6.6",
		"Forwarded: for=6.6.6.6", "Upgrade: websocket", "Trailer: Host", "TE: trailers", "Expect: 100-continue", "Content_Length: 5", "Transfer_Encoding: chunked", "Proxy-Connection: close", "Keep-Alive: timeout=5",
		"X-Sum : 1", "X-Sum\t: 1", " X-Sum: 1", "\tX-Sum: 1", "X-Sum", ": 1", "X-Sum: 1\nY: 2", "X-Sum: 1\rY: 2", "X-Sum: \x00", "X-Sum: 1\r\n folded", "X Sum: 1", "X\x00Sum: 1", "X-Sum: 1\x0b", "X_Sum: 1",
		"GET /hidden-" + stamp + " HTTP/1.1", "X-Forwarded-Proto: https", "X-SSL-Client-Cert: x",
	} {
		with(refuse, trailer)
	}
	for _, announced := range []string{"Content-Length", "Transfer-Encoding", "Host", "content-length, x-sum", "X-Sum,Host", "X-Forwarded-For"} {
		f.add(refuse, "announces "+announced, post(plainChunks, chunked, "Trailer: "+announced))
	}
	f.add(refuse, "too many trailers", post("0\r\n"+strings.Repeat("X: y\r\n", 2000)+"\r\n", chunked))
	f.add(refuse, "a trailer without end", post("0\r\nX: "+strings.Repeat("y", 70000)+"\r\n\r\n", chunked))
	f.add(refuse, "trailers end with LF", post("0\r\nX: y\r\n\n"+hidden, chunked))
	f.add(refuse, "trailers end with CR", post("0\r\nX: y\r\n\r"+hidden, chunked))
	return f
}
