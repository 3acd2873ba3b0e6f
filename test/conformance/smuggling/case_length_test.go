package smuggling

import (
	"fmt"
	"strings"
)

// lengthValues spells the length of a body that is itself a request.
func lengthValues() (f family) {
	n := len(hidden)
	with := func(want verdict, value string) {
		f.add(want, fmt.Sprintf("%q", value), post(hidden, "Content-Length:"+value))
	}
	for _, plain := range []string{" %d", "%d", "  %d", "\t%d", " %d ", " %d\t", " \t %d \t "} {
		with(serve, fmt.Sprintf(plain, n))
	}
	for _, zeros := range []string{" 0%d", " 00%d", " 000000%d"} {
		with(either, fmt.Sprintf(zeros, n))
	}
	for _, odd := range []string{
		" +%d", " -%d", " %d.0", " %d,", " ,%d", " %[1]d,%[1]d", " %[1]d, %[1]d", " %[1]d,0", " 0,%d", " %[1]d;%[1]d", " %[1]d %[1]d",
		" 0x%x", " 0X%X", " 0o%o", " 0b%b", " %x", " %de0", " %dE0", " 1e2", " %d_0", " 1_0", " \"%d\"", " '%d'", " (%d)", " %d#", " %dL", " %d;a=b",
		" %d bytes", " bytes %d", " %d\\", " =%d", " :%d", " %%%d", " %d%%00", " $%d", " %d\u0660", " \u0661\u0660", " \uff11\uff10", " %d\u00a0",
		" \u2003%d", " %d\ufeff", " NaN", " Infinity", " null", " chunked", " identity",
	} {
		if strings.Contains(odd, "%") {
			odd = fmt.Sprintf(odd, n)
		}
		with(refuse, odd)
	}
	for _, bare := range []string{
		"", " ", "\t", " -0", " +0", " 0x", " 18446744073709551616", fmt.Sprintf(" %d", uint64(1<<63)), " 9223372036854775808",
		fmt.Sprintf(" 1844674407370955%d", 1616+n), " " + strings.Repeat("9", 40), " " + strings.Repeat("0", 40), " 4294967296 1",
	} {
		with(refuse, bare)
	}
	// Without a body, the hidden request is an honest one.
	f.addOpen(serve, "zero", post(hidden, "Content-Length: 0"))
	f.addOpen(either, "zeros", post(hidden, "Content-Length: 000"))
	f.add(either, "longer than what comes", post(hidden, "Content-Length: 100000"))
	f.add(either, "as long as a number can be", post(hidden, "Content-Length: 9223372036854775807"))
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "PUT", "PATCH", "PROPFIND"} {
		f.add(serve, method+" with a body", message(method+" /case-"+stamp+" HTTP/1.1", hidden, "Host: "+site, length(hidden)))
	}
	f.add(either, "TRACE with a body", message("TRACE /case-"+stamp+" HTTP/1.1", hidden, "Host: "+site, length(hidden)))
	return f
}

// lengthNames spells the name of the length.
func lengthNames() (f family) {
	n := len(hidden)
	for _, name := range []string{"content-length", "CONTENT-LENGTH", "cOnTeNt-LeNgTh", "Content-length"} {
		f.add(serve, name, post(hidden, fmt.Sprintf("%s: %d", name, n)))
	}
	for _, name := range []string{
		"Content-Length ", "Content-Length\t", " Content-Length", "\tContent-Length", "Content_Length", "Content Length", "\"Content-Length\"",
		"Content-Length\x00", "Content-Length\x0b", "Content-Length\x0c", "Content-Length\xa0", "\xa0Content-Length", "Content\u2010Length",
		"Content-Len\u0261th", "Content-Length:", "Content-Length;", "Content-Length=", "(Content-Length)", "Content-Length/", "Content,Length",
		"Content-Length@", "[Content-Length]", "{Content-Length}", "Content\\Length", "", " ",
	} {
		// Names whose last character is the colon have an odd value instead.
		f.add(refuse, fmt.Sprintf("%q", name), post(hidden, fmt.Sprintf("%s: %d", name, n)))
	}
	// These are other headers: the body is empty, and what follows a request.
	for _, name := range []string{
		"Content-Length1", "XContent-Length", "X-Content-Length", "Content--Length", "ContentLength", "Content-Lengt", "Content.Length", "Content+Length",
		"Content~Length", "Content'Length", "Content!Length", "Content|Length", "Content^Length", "Content-Length-", "-Content-Length",
	} {
		f.addOpen(either, fmt.Sprintf("%q", name), post(hidden, fmt.Sprintf("%s: %d", name, n)))
	}
	return f
}

// lengthPairs has two lengths.
func lengthPairs() (f family) {
	n := len(hidden)
	pair := func(first, second string) {
		f.add(refuse, fmt.Sprintf("%q %q", first, second), post(hidden, first, second))
	}
	right := length(hidden)
	for _, other := range []string{"0", "1", "5", fmt.Sprint(n), fmt.Sprint(n + 1), fmt.Sprint(n - 1), "0" + fmt.Sprint(n), "+" + fmt.Sprint(n), "", "x", "-1"} {
		pair(right, "Content-Length: "+other)
		pair("Content-Length: "+other, right)
		pair(right, "content-length: "+other)
	}
	pair(right, "Content-Length : 0")
	pair("Content-Length : 0", right)
	pair(right, "Content_Length: 0")
	pair(right, " Content-Length: 0")
	pair(right, "Content-Length\x00: 0")
	f.add(refuse, "three alike", post(hidden, right, right, right))
	f.add(refuse, "apart", post(hidden, right, "X-Between: y", right))
	return f
}
