package smuggling

import (
	"fmt"
	"strings"
)

// odd are characters that some trim, some skip and some end a line at.
func odd() []string {
	return []string{
		"\x00", "\x01", "\x08", "\t", "\n", "\x0b", "\x0c", "\r", "\x0e", "\x1b", "\x1c", "\x1d", "\x1e", "\x1f", " ", "\x7f",
		"\x80", "\x85", "\xa0", "\xad", "\xff", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000", "\ufeff", "\r\n ", "\r\n\t", "\n ", "\r ", "\\", "\"", "'", ",", ";",
	}
}

// oddBytes puts each at every place of the two lines that frame a body.
func oddBytes() (f family) {
	lines := []struct{ name, value, body, other string }{
		{"Transfer-Encoding", "chunked", chunkedHidden, length(chunkedHidden)},
		{"Transfer-Encoding", "chunked", plainChunks, ""},
		{"Content-Length", fmt.Sprint(len(hidden)), hidden, ""},
	}
	for i, line := range lines {
		middle := len(line.value) / 2
		for _, c := range odd() {
			spellings := []struct{ place, line string }{
				{"before the name", c + line.name + ": " + line.value},
				{"in the name", strings.Replace(line.name, "-", "-"+c, 1) + ": " + line.value},
				{"before the colon", line.name + c + ": " + line.value},
				{"after the colon", line.name + ":" + c + line.value},
				{"in the value", line.name + ": " + line.value[:middle] + c + line.value[middle:]},
				{"after the value", line.name + ": " + line.value + c},
			}
			for _, s := range spellings {
				want, open := oddVerdict(i, c, s.place)
				raw := post(line.body, s.line)
				if line.other != "" {
					raw = post(line.body, line.other, s.line)
				}
				f = append(f, sample{name: fmt.Sprintf("%d %q %s", i, c, s.place), raw: raw, want: want, open: open})
			}
		}
	}
	return f
}

// oddVerdict: white space around a value is allowed; everything else is not. A
// quote is a character of names, so it makes another header, and without its
// length what follows is a request.
func oddVerdict(line int, c, place string) (want verdict, open bool) {
	around := place == "after the colon" || place == "after the value"
	if (c == " " || c == "\t") && around && line > 0 {
		return serve, false
	}
	if c == "'" && !around && place != "in the value" {
		return either, line == 2
	}
	return refuse, false
}

// lineEnds ends lines in every way but CRLF.
func lineEnds() (f family) {
	ends := []string{"\n", "\r", "\n\r", "\r\r\n", "\r\n\r", "\x00\r\n", "\r\x00\n", "\x0b\n", "\x0c\n", "\r\x0b\n", "\u2028", "\x85", " \n", "\r \n", "\\r\\n", "%0d%0a"}
	base := post(chunkedHidden, length(chunkedHidden), "X-One: 1", "X-Two: 2")
	places := []struct{ name, before string }{
		{"the request line", "HTTP/1.1"},
		{"the host", "Host: " + site},
		{"the length", length(chunkedHidden)},
		{"a header", "X-One: 1"},
		{"the last header", "X-Two: 2"},
	}
	for _, end := range ends {
		for _, place := range places {
			want := refuse
			switch end {
			case "\u2028", "\x85", "\\r\\n", "%0d%0a":
				want = either // to us they are letters like others
			}
			f.add(want, fmt.Sprintf("%q after %s", end, place.name), strings.Replace(base, place.before+"\r\n", place.before+end, 1))
		}
		f.add(refuse, fmt.Sprintf("%q as the empty line", end), strings.Replace(base, "\r\n\r\n", "\r\n"+end, 1))
		f.add(refuse, fmt.Sprintf("%q before the request", end), end+base)
	}
	f.add(refuse, "LF everywhere", strings.ReplaceAll(base, "\r\n", "\n"))
	f.add(refuse, "CR everywhere", strings.ReplaceAll(base, "\r\n", "\r"))
	f.add(refuse, "LF in the head only", strings.ReplaceAll(post("", "Content-Length: 0"), "\r\n", "\n"))
	f.add(either, "an empty line before the request", "\r\n"+base)
	f.add(refuse, "two empty lines before the request", "\r\n\r\n"+base)
	f.add(refuse, "an empty line after LF", "\n\r\n"+base)
	f.add(refuse, "a space before the request", " "+base)
	f.add(refuse, "a tab before the request", "\t"+base)
	f.add(refuse, "a byte order mark before the request", "\ufeff"+base)
	return f
}

// folds continues lines.
func folds() (f family) {
	for _, fold := range []string{"\r\n ", "\r\n\t", "\r\n  ", "\r\n \t", "\n ", "\n\t", "\r ", "\r\n\x0b", "\r\n\x0c", "\r\n\xa0"} {
		name := fmt.Sprintf("%q ", fold)
		f.add(refuse, name+"before chunked", post(plainChunks, "Transfer-Encoding:"+fold+"chunked"))
		f.add(refuse, name+"before chunked, with a length", post(chunkedHidden, length(chunkedHidden), "Transfer-Encoding:"+fold+"chunked"))
		f.add(refuse, name+"after chunked", post(chunkedHidden, length(chunkedHidden), chunked+fold))
		f.add(refuse, name+"between codings", post(plainChunks, "Transfer-Encoding: chunked,"+fold+"chunked"))
		f.add(refuse, name+"before the length", post(hidden, "Content-Length:"+fold+fmt.Sprint(len(hidden))))
		f.add(refuse, name+"in the length", post(hidden, "Content-Length: 1"+fold+"0"))
		f.add(refuse, name+"hides the coding", post(chunkedHidden, length(chunkedHidden), "X: y"+fold+chunked))
		f.add(refuse, name+"hides the length", post(hidden, "X: y"+fold+length(hidden)))
		f.add(refuse, name+"in the host", message("GET /case-"+stamp+" HTTP/1.1", "", "Host:"+fold+site))
		f.add(refuse, name+"as the first header", strings.Replace(get(), "X-Nonce", fold[strings.IndexAny(fold, "\n\r")+1:]+"X-Nonce", 1))
		f.add(refuse, name+"after the request line", strings.Replace(get(), "HTTP/1.1\r\n", "HTTP/1.1"+fold+"X: y\r\n", 1))
	}
	return f
}
