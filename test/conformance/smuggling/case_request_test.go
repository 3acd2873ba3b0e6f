package smuggling

import (
	"fmt"
	"strings"
)

// line is a request with a request line of its own.
func line(text string) string { return message(text, "", "Host: "+site) }

// requestLines separates the parts of a request line.
func requestLines() (f family) {
	path := "/case-" + stamp
	for _, text := range []string{
		"GET  " + path + " HTTP/1.1", "GET " + path + "  HTTP/1.1", "GET\t" + path + " HTTP/1.1", "GET " + path + "\tHTTP/1.1", " GET " + path + " HTTP/1.1", "GET " + path + " HTTP/1.1 ", "GET " + path + " HTTP/1.1\t",
		"GET" + path + " HTTP/1.1", "GET " + path, "GET " + path + " ", "GET", "", path, "GET\x0b" + path + " HTTP/1.1", "GET\x0c" + path + " HTTP/1.1", "GET\xa0" + path + " HTTP/1.1", "GET " + path + "\xa0HTTP/1.1",
		"GET " + path + "\x0bHTTP/1.1", "GET " + path + "\x0cHTTP/1.1", "GET\r" + path + " HTTP/1.1", "GET " + path + "\rHTTP/1.1", "GET " + path + " x HTTP/1.1", "GET " + path + " HTTP/1.1 HTTP/1.1", "GET " + path + " HTTP/1.1 x",
		"GET " + path + "\x00 HTTP/1.1", "GET " + path + " \x00HTTP/1.1", "GET " + path + " HTTP/1.1\x00", "GET " + path + " HTTP/1.1\r", "GET\x00 " + path + " HTTP/1.1", "HTTP/1.1 200 OK", "GET\u00a0" + path + "\u00a0HTTP/1.1",
		"GET " + path + " HTTP/1.1:", "GET: " + path + " HTTP/1.1", "\"GET\" " + path + " HTTP/1.1", "GET " + path + " HTTP/1.1, GET / HTTP/1.1", "GET  HTTP/1.1", "GET \t HTTP/1.1",
	} {
		f.add(refuse, fmt.Sprintf("%q", text), line(text))
	}
	f.add(refuse, "a second request line", message("GET "+path+" HTTP/1.1\r\nGET /hidden-"+stamp+" HTTP/1.1", "", "Host: "+site))
	f.add(refuse, "HTTP/0.9", "GET "+path+"\r\n")
	f.add(refuse, "HTTP/0.9 and a request", "GET "+path+"\r\n\r\n"+hidden)
	return f
}

func versions() (f family) {
	path := "/case-" + stamp
	for _, version := range []string{
		"HTTP/1.2", "HTTP/2.0", "HTTP/2", "HTTP/3", "HTTP/0.9", "HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/11", "HTTP/1.10", "HTTP/1.01", "HTTP/01.1", "HTTP/1.1.1", "HTTP/1,1", "HTTP/ 1.1", "HTTP /1.1", "HTTP/1 .1", "HTTP/1. 1",
		"http/1.1", "Http/1.1", "HTTP\\1.1", "HTTP-1.1", "HTTP1.1", "HTTPS/1.1", "HTTP/+1.1", "HTTP/1.+1", "HTTP/-1.1", "HTTP/1.-1", "HTTP/A.B", "HTTP/\uff11.1", "HTTP/1.1a", "xHTTP/1.1", "HTTP/9.9", "HTTP/1.9", "ICY/1.1", "RTSP/1.0",
		"SIP/2.0", "HTTP//1.1", "HTTP/1.1/", "HTTP/1\x001", "HTTP/4294967297.1", "HTTP/1.4294967297", "HTTP/1.1;", "HTTP/0.1", "HTTP/1.x",
	} {
		f.add(refuse, fmt.Sprintf("%q", version), line("GET "+path+" "+version))
	}
	f.addOpen(either, "HTTP/1.0", message("GET "+path+" HTTP/1.0", "", "Host: "+site))
	f.addOpen(serve, "HTTP/1.0 that stays", message("GET "+path+" HTTP/1.0", "", "Host: "+site, "Connection: keep-alive"))
	f.add(either, "HTTP/1.0 with a body", message("POST "+path+" HTTP/1.0", hidden, "Host: "+site, length(hidden)))
	f.add(serve, "HTTP/1.0 with a body that stays", message("POST "+path+" HTTP/1.0", hidden, "Host: "+site, length(hidden), "Connection: keep-alive"))
	f.add(either, "HTTP/1.0 without a host", message("GET "+path+" HTTP/1.0", ""))
	f.add(refuse, "preface of HTTP/2 in the middle", get()+"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	return f
}

func methods() (f family) {
	at := " /case-" + stamp + " HTTP/1.1"
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "PROPFIND", "MKCOL", "REPORT", "PURGE", "M-SEARCH"} {
		f.add(serve, method, line(method+at))
	}
	for _, method := range []string{"TRACE", "FOO", "GETT", "FOO-BAR", "FOO_BAR", "A", "QUERY", strings.Repeat("A", 32)} {
		f.add(either, method, line(method+at))
	}
	for _, method := range []string{
		"get", "Get", "gET", "post", "G\x00ET", "GE\tT", "GET\x7f", "G\xc9T", "GET,POST", "GET;", "GET/", "G(ET)", "GET@", "GET:", "GET=", "[GET]", "{GET}", "\"GET\"", "<GET>", "G\\ET", "GET?", "1GET", "GET1",
		"G.ET", "G+ET", "G'ET", "G!ET", "G#ET", "G$ET", "G%20ET", "G&ET", "G*ET", "G^ET", "G`ET", "G|ET", "G~ET", "\u0413ET", strings.Repeat("A", 33), strings.Repeat("A", 5000),
	} {
		f.add(refuse, fmt.Sprintf("%.20q", method), line(method+at))
	}
	f.add(refuse, "CONNECT", message("CONNECT "+site+":443 HTTP/1.1", "", "Host: "+site+":443"))
	f.add(refuse, "CONNECT with a path", line("CONNECT"+at))
	f.add(refuse, "CONNECT with a body", message("CONNECT "+site+":443 HTTP/1.1", hidden, "Host: "+site+":443", length(hidden)))
	f.add(refuse, "CONNECT with an absolute target", message("CONNECT http://"+site+at[1:], "", "Host: "+site))
	f.add(refuse, "connect", message("connect "+site+":443 HTTP/1.1", "", "Host: "+site+":443"))
	f.add(either, "OPTIONS for all", message("OPTIONS * HTTP/1.1", "", "Host: "+site))
	f.add(either, "OPTIONS for all, with a body", message("OPTIONS * HTTP/1.1", hidden, "Host: "+site, length(hidden)))
	f.add(refuse, "GET for all", message("GET * HTTP/1.1", "", "Host: "+site))
	f.addOpen(serve, "HEAD, then a request", line("HEAD"+at)+hidden)
	f.addOpen(serve, "HEAD with length 0, then a request", message("HEAD"+at, "", "Host: "+site, "Content-Length: 0")+hidden)
	return f
}

func targets() (f family) {
	path := "/case-" + stamp
	for _, target := range []string{path, path + "?a=b", path + "?", path + "?a=b?c", path + "?" + strings.Repeat("a", 2000), "/%63ase-" + stamp, "//x/../case-" + stamp, path + "?x=%0d%0aX:%20y"} {
		f.add(serve, fmt.Sprintf("%.40q", target), line("GET "+target+" HTTP/1.1"))
	}
	for _, target := range []string{
		path + "#x", path + "?a#x", "#", "#" + path, path + "\u00e9", path + "\xff", path + "\x01", path + "\x7f", "case-" + stamp, "./case-" + stamp, "../case-" + stamp, "?" + path, "*" + path, "\\" + path,
		path + "%00", path + "%2f..%2fx", path + "%5c", path + "\\x", path + ";x", path + "%0", path + "%", path + "%zz", path + "%23", path + "/..;/x", "http:" + path, "http:/" + path, "http://", "http:///" + path,
		"https:", "ftp://" + site + path, "file://" + path, "javascript:1", site + ":80", site + path, ":80" + path, "mailto:a@b", "@" + site + path,
	} {
		f.add(refuse, fmt.Sprintf("%q", target), line("GET "+target+" HTTP/1.1"))
	}
	// The path of these is a path, whatever they look like.
	for _, target := range []string{path + "%0d%0aX:%20y", path + "%20HTTP/1.1", path + "%0a", path + "\"", path + "<>", path + "|", path + "{}", path + "^", path + "`", path + "'", path + ":80", "/http://evil.test" + path, path + "?#"[:1]} {
		f.add(either, fmt.Sprintf("%q", target), line("GET "+target+" HTTP/1.1"))
	}
	for _, prefix := range []string{"http://" + site, "HTTP://" + site, "http://" + strings.ToUpper(site)} {
		f.add(either, "absolute "+prefix, line("GET "+prefix+path+" HTTP/1.1"))
	}
	for _, prefix := range []string{
		"http://evil.test", "http://" + site + ".evil.test", "http://evil@" + site, "http://" + site + "@evil.test", "http://" + site + ":81", "http://" + site + ":", "http://[" + site + "]", "http://" + site + "%00", "http:\\\\" + site, "http://" + site + "\\",
		"https://evil.test", "ws://" + site, "http:// " + site, "http://" + site + "#", "http://" + site + "?", "//" + site + "@evil.test/..", "http://" + site + " ", "http://user:pass@" + site,
	} {
		f.add(either, "absolute "+fmt.Sprintf("%q", prefix), line("GET "+prefix+path+" HTTP/1.1"))
	}
	f.add(refuse, "too long", line("GET "+path+strings.Repeat("a", 70000)+" HTTP/1.1"))
	return f
}
