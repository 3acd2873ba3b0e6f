// Package normalize gives a request's path, host and header names their one
// spelling. Everything that matches, authorises, logs or forwards a request
// reads the result of this package, for HTTP/1.1, HTTP/2 and HTTP/3 alike. Most
// published vulnerabilities of edge proxies are two parts of one program that read
// the same bytes differently; here there is one reading.
//
// It guarantees:
//   - the result is canonical: normalising it again changes nothing;
//   - canonical input is returned as it is, without a copy and without an
//     allocation, and a fuzz test compares that fast path with a slow reference;
//   - inputs are never written to.
//
// A path is canonical when it starts with a slash, has no dot segments and no
// empty segments, no unreserved character is escaped, the hex digits of the
// other escapes are upper case, and what may not stand in a path is escaped.
// The query is kept byte for byte. A host is canonical when it is lower case
// and has neither port nor trailing dot.
//
// It refuses input without a safe reading: control characters, spaces, fragments,
// bytes outside ASCII, a dot segment hidden behind an encoded separator, an
// absolute target that disagrees with Host. Spellings that some backends need
// and others misread are a [Hazard]: refused unless the caller allows them.
package normalize
