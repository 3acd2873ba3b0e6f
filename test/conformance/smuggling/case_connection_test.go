package smuggling

import (
	"fmt"
	"strings"
)

// hosts names the host twice, not at all, and in odd ways.
func hosts() (f family) {
	first := "GET /case-" + stamp + " HTTP/1.1"
	for _, value := range []string{site, strings.ToUpper(site), site + ".", site + ":80", site + ":8080", "\t" + site, site + "\t", "127.0.0.1", "[::1]", "[::1]:80"} {
		f.add(serve, fmt.Sprintf("%q", value), message(first, "", "Host: "+value))
	}
	for _, value := range []string{
		"", " ", "\t", site + ", evil.test", site + " evil.test", site + ",", "," + site, "http://" + site, site + "/", site + "/x", "/" + site, "x@" + site, site + "@evil.test", site + "#x", site + "?x", site + "\\", site + ":x", site + ":",
		site + ":-1", site + ":0", site + ":65536", site + ":80:80", site + ":+80", site + ": 80", ":" + site, ":80", "[::1", "::1]", "[::1]x", "[]", "[evil]", "." + site, "a.." + site, site + "..", "\"" + site + "\"", "<" + site + ">",
		site + "\x00", "\x00" + site, site + "\x0b", site + "\xa0", site + "%00", site + "%20", "\u00e9.test", "*." + site, "*", site + ";x", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 130) + "test", "{" + site + "}", "$(x)", "`x`", site + "\r", site + "|x",
	} {
		f.add(refuse, fmt.Sprintf("%.30q", value), message(first, "", "Host: "+value))
	}
	for _, second := range []string{"Host: " + site, "host: " + site, "Host: evil.test", "HOST: evil.test", "Host:", "Host : evil.test", " Host: evil.test", "Host\x00: evil.test", "Host\t: evil.test", "Ho\rst: evil.test"} {
		f.add(refuse, fmt.Sprintf("and then %q", second), message(first, "", "Host: "+site, second))
		f.add(refuse, fmt.Sprintf("first %q", second), message(first, "", second, "Host: "+site))
	}
	f.add(refuse, "none", message(first, ""))
	f.add(refuse, "none, with a body", message("POST /case-"+stamp+" HTTP/1.1", hidden, length(hidden)))
	f.add(refuse, "absolute without Host", message("GET http://"+site+"/case-"+stamp+" HTTP/1.1", ""))
	f.add(refuse, "absolute with an empty Host", message("GET http://"+site+"/case-"+stamp+" HTTP/1.1", "", "Host:"))
	f.add(refuse, "absolute with another Host", message("GET http://"+site+"/case-"+stamp+" HTTP/1.1", "", "Host: evil.test"))
	f.add(refuse, "absolute with two Hosts", message("GET http://"+site+"/case-"+stamp+" HTTP/1.1", "", "Host: "+site, "Host: "+site))
	f.add(refuse, "folded", message(first, "", "Host: "+site+"\r\n .evil.test"))
	f.add(either, "X-Forwarded-Host", message(first, "", "Host: "+site, "X-Forwarded-Host: evil.test"))
	f.add(either, "X-Host", message(first, "", "Host: "+site, "X-Host: evil.test", "X-Original-URL: /admin", "X-Rewrite-URL: /admin"))
	return f
}

// connections lists headers that matter among those to drop.
func connections() (f family) {
	body := post
	for _, named := range []string{"Content-Length", "content-length", "Host", "host", "X-Nonce2", "close, Content-Length", "keep-alive, Content-Length, Host", "Transfer-Encoding", "Connection", "X-Forwarded-For", "Cookie"} {
		f.add(either, "length, and Connection: "+named, body(hidden, length(hidden), "Connection: "+named))
		f.add(either, "Connection: "+named+", and length", body(hidden, "Connection: "+named, length(hidden)))
		f.add(either, "chunks, and Connection: "+named, body(plainChunks, chunked, "Connection: "+named))
	}
	for _, value := range []string{"close", "keep-alive", "close, keep-alive", "keep-alive, close", "Close", "KEEP-ALIVE", ",close", "close,", ",,,", "", "close, close", "TE", "close,TE", "x"} {
		f.add(either, fmt.Sprintf("Connection: %q", value), body(hidden, length(hidden), "Connection: "+value))
	}
	for _, value := range []string{"close x", "close;x", "\"close\"", "close\x00", "clo\x0bse", "close\x0c", "a b", "a=b", "(a)", "close/1", strings.Repeat("a,", 200)} {
		f.add(refuse, fmt.Sprintf("Connection: %.20q", value), body(hidden, length(hidden), "Connection: "+value))
	}
	f.add(either, "two Connections", body(hidden, length(hidden), "Connection: close", "Connection: keep-alive"))
	f.add(either, "two Connections the other way", body(hidden, length(hidden), "Connection: keep-alive", "Connection: close"))
	f.add(either, "Proxy-Connection", body(hidden, length(hidden), "Proxy-Connection: close"))
	f.add(either, "Keep-Alive", body(hidden, length(hidden), "Keep-Alive: timeout=1, max=1"))
	f.addOpen(either, "a request after close", get("Connection: close")+hidden)
	f.add(refuse, "Connection with a space before the colon", body(hidden, length(hidden), "Connection : close"))
	f.add(refuse, "Connection with an underscore", body(hidden, length(hidden), "Proxy_Connection: close"))
	return f
}

func expectations() (f family) {
	for _, value := range []string{"100-continue", "100-Continue", "100-CONTINUE", " 100-continue", "100-continue "} {
		f.add(serve, fmt.Sprintf("%q with a length", value), post(hidden, length(hidden), "Expect:"+value))
		f.add(serve, fmt.Sprintf("%q with chunks", value), post(plainChunks, chunked, "Expect:"+value))
		f.add(serve, fmt.Sprintf("%q without a body", value), get("Expect:"+value))
		f.addOpen(serve, fmt.Sprintf("%q with length 0", value), post(hidden, "Content-Length: 0", "Expect:"+value))
	}
	for _, value := range []string{"", "x", "200-ok", "100-continue, x", "x, 100-continue", "100-continue;q=1", "\"100-continue\"", "100 continue", "100-continuex", "100", "100-continue 100-continue", "100-continue\x00", "y 100-continue"} {
		f.add(refuse, fmt.Sprintf("%q", value), post(hidden, length(hidden), "Expect: "+value))
	}
	f.add(either, "twice", post(hidden, length(hidden), "Expect: 100-continue", "Expect: 100-continue"))
	f.add(refuse, "twice, once odd", post(hidden, length(hidden), "Expect: 100-continue", "Expect: x"))
	f.add(either, "in HTTP/1.0", message("POST /case-"+stamp+" HTTP/1.0", hidden, "Host: "+site, length(hidden), "Expect: 100-continue"))
	f.add(either, "longer than what comes", post(hidden, "Content-Length: 100000", "Expect: 100-continue"))
	f.add(refuse, "both lengths", post(chunkedHidden, length(chunkedHidden), chunked, "Expect: 100-continue"))
	return f
}

func upgrades() (f family) {
	for _, protocol := range []string{"websocket", "WebSocket", "h2c", "H2C", "h2", "HTTP/2.0", "HTTP/1.1", "TLS/1.0", "IRC/6.9", "websocket, h2c", "h2c, websocket", "websocket,websocket", "", "x y", "/", "websocket/13"} {
		f.add(either, fmt.Sprintf("%q", protocol), get("Connection: Upgrade", "Upgrade: "+protocol))
		f.add(either, fmt.Sprintf("%q with settings", protocol), get("Connection: Upgrade, HTTP2-Settings", "Upgrade: "+protocol, "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"))
		f.add(either, fmt.Sprintf("%q with a body", protocol), post(hidden, length(hidden), "Connection: Upgrade", "Upgrade: "+protocol))
		f.add(either, fmt.Sprintf("%q with chunks", protocol), post(plainChunks, chunked, "Connection: upgrade", "Upgrade: "+protocol))
		f.add(either, fmt.Sprintf("%q not listed", protocol), get("Upgrade: "+protocol))
	}
	key := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	f.addOpen(either, "a WebSocket, and a request at once", get(key...)+hidden)
	f.addOpen(either, "a WebSocket of an old version, and a request", get("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 1", key[3])+hidden)
	f.add(either, "two Upgrades", get("Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"))
	f.add(either, "Connection says nothing of it", get("Upgrade: websocket", "Connection: keep-alive"))
	f.add(refuse, "Upgrade with a space before the colon", get("Connection: Upgrade", "Upgrade : h2c"))
	return f
}

// pipelines are honest: several requests at once.
func pipelines() (f family) {
	f.addOpen(serve, "two requests", get()+hidden)
	f.addOpen(serve, "five requests", strings.Repeat(get(), 4)+hidden)
	f.addOpen(serve, "bodies between", post("hello", "Content-Length: 5")+post(plainChunks, chunked)+hidden)
	f.addOpen(serve, "every method", line("HEAD /case-"+stamp+" HTTP/1.1")+line("OPTIONS /case-"+stamp+" HTTP/1.1")+line("DELETE /case-"+stamp+" HTTP/1.1")+hidden)
	f.addOpen(serve, "fifty requests", strings.Repeat(get(), 50))
	f.add(refuse, "good, then bad", get()+post(chunkedHidden, length(chunkedHidden), chunked))
	f.add(refuse, "good with a body, then bad", post("hello", "Content-Length: 5")+post(hidden, "Content-Length: +5"))
	f.add(refuse, "chunks, then bad", post(plainChunks, chunked)+"GET /hidden-"+stamp+" HTTP/1.1\nHost: x\n\n")
	f.add(refuse, "a body that is too long", post("hello!", "Content-Length: 5"))
	f.add(refuse, "bytes between", get()+"x"+hidden)
	f.add(refuse, "NUL between", get()+"\x00"+hidden)
	f.addOpen(either, "an empty line between", get()+"\r\n"+hidden)
	f.add(refuse, "an empty line of LF between", get()+"\n"+hidden)
	f.addOpen(either, "Expect, then a request", post("hello", "Content-Length: 5", "Expect: 100-continue")+hidden)
	f.add(serve, "many headers", get(strings.Split(strings.Repeat("X-Many: y,", 90)+"X-Last: y", ",")...))
	return f
}

// sizes goes to the limits.
func sizes() (f family) {
	f.add(refuse, "too many headers", get(strings.Split(strings.Repeat("X: y,", 200)+"X: z", ",")...))
	f.add(refuse, "a header without end", get("X: "+strings.Repeat("a", 70000)))
	f.add(refuse, "a name without end", get(strings.Repeat("a", 70000)+": x"))
	f.add(refuse, "a head without end", get(strings.Split(strings.Repeat("X: "+strings.Repeat("a", 1000)+",", 60)+"X: z", ",")...))
	f.add(serve, "a large body", post(strings.Repeat("x", 300000), "Content-Length: 300000"))
	f.add(serve, "a large chunk", post(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 300000, strings.Repeat("x", 300000)), chunked))
	f.add(serve, "a large cookie", get("Cookie: a="+strings.Repeat("a", 6000)))
	f.add(either, "a huge cookie", get("Cookie: a="+strings.Repeat("a", 20000)))
	return f
}
