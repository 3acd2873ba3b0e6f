package smuggling

import "fmt"

// codings are values of Transfer-Encoding that some read as chunked.
func codings() []string {
	return []string{
		"chunked, chunked", "chunked,chunked", "chunked ,chunked", "chunked, identity", "identity, chunked", "identity,chunked", "identity", "gzip", "gzip, chunked",
		"chunked, gzip", "deflate, chunked", "x, chunked", "cow", "chunked, cow", "cow, chunked", "xchunked", "chunkedx", "chunked-x", "x-chunked", "chunked;", "chunked; q=1",
		"chunked;q=0", "chunked;a=b", "chunked;chunked", ";chunked", "chunked=1", "=chunked", ",chunked", ", chunked", "chunked,", "chunked, ", ",,chunked", "chunked,,",
		"\"chunked\"", "'chunked'", "`chunked`", "(chunked)", "<chunked>", "[chunked]", "{chunked}", "chunked\"", "\"chunked", "ch\"unk\"ed", "chun ked", "chunk\ted",
		"chu\x00nked", "chunked\x00", "\x00chunked", "chunked\x0b", "\x0bchunked", "chunked\x0c", "\x0cchunked", "chunked\xa0", "\xa0chunked", "chunked\x85",
		"chunked\u00a0", "\u00a0chunked", "chunked\u2003", "chun\u212aed", "\uff43hunked", "chunked\u200b", "\ufeffchunked", "chunked\xff", "\xffchunked",
		"", " ", "chunk", "chunke", "chunkedd", "cchunked", "chunked chunked", "chunked\tchunked", "chunked identity", "chunked%20", "%63hunked", "chunked\\", "\\chunked",
		"chunked:chunked", "chunked/1.0", "chunked.", ".chunked", "*", "chunked*", "trailers", "0", "1", "true", "null", "undefined", "br, gzip, chunked",
	}
}

// codingValues spells the coding, with and without a length that contradicts it.
func codingValues() (f family) {
	for _, spelling := range []string{"chunked", "CHUNKED", "Chunked", "cHuNkEd", " chunked", "\tchunked", "chunked ", "chunked\t", "  chunked  "} {
		f.add(serve, fmt.Sprintf("%q alone", spelling), post(plainChunks, "Transfer-Encoding:"+spelling))
	}
	for _, value := range codings() {
		line := "Transfer-Encoding: " + value
		f.add(refuse, fmt.Sprintf("%q alone", value), post(plainChunks, line))
		f.add(refuse, fmt.Sprintf("%q with a length", value), post(chunkedHidden, line, length(chunkedHidden)))
	}
	return f
}

// codingNames spells the name of the coding.
func codingNames() (f family) {
	for _, name := range []string{"transfer-encoding", "TRANSFER-ENCODING", "tRANSFER-eNCODING"} {
		f.add(serve, name, post(plainChunks, name+": chunked"))
		f.add(refuse, name+" with a length", post(chunkedHidden, length(chunkedHidden), name+": chunked"))
	}
	for _, name := range []string{
		"Transfer-Encoding ", "Transfer-Encoding\t", " Transfer-Encoding", "\tTransfer-Encoding", "Transfer_Encoding", "Transfer Encoding", "\"Transfer-Encoding\"",
		"Transfer-Encoding\x00", "Transfer-Encoding\x0b", "Transfer-Encoding\x0c", "Transfer-Encoding\xa0", "\xa0Transfer-Encoding", "Transfer\u2010Encoding",
		"Transfer-Encod\u00efng", "Transfer-Encoding:", "Transfer-Encoding;", "Transfer-Encoding=", "(Transfer-Encoding)", "Transfer-Encoding\x7f",
		"Transfer-\x00Encoding", "\x00Transfer-Encoding", "Transfer-Encoding\r", "\x01Transfer-Encoding", "Transfer-Encoding\x1f", "Transfer,Encoding",
	} {
		f.add(refuse, fmt.Sprintf("%q", name), post(plainChunks, name+": chunked"))
		f.add(refuse, fmt.Sprintf("%q with a length", name), post(chunkedHidden, length(chunkedHidden), name+": chunked"))
		f.add(refuse, fmt.Sprintf("%q before a length", name), post(chunkedHidden, name+": chunked", length(chunkedHidden)))
	}
	// These are other headers, so the length counts and all of it is body.
	for _, name := range []string{
		"X-Transfer-Encoding", "Transfer-Encoding1", "TransferEncoding", "Transfer--Encoding", "Transfer.Encoding", "Transfer+Encoding", "Transfer~Encoding",
		"Transfer-Encodin", "Content-Encoding", "TE", "Transfer'Encoding", "Transfer|Encoding", "Transfer!Encoding",
	} {
		f.add(either, fmt.Sprintf("%q with a length", name), post(chunkedHidden, length(chunkedHidden), name+": chunked"))
	}
	return f
}

// bothLengths has length and coding, and the coding twice.
func bothLengths() (f family) {
	right := length(chunkedHidden)
	f.add(refuse, "CL.TE", post(chunkedHidden, right, chunked))
	f.add(refuse, "TE.CL", post(chunkedHidden, chunked, right))
	f.add(refuse, "TE.CL with a short length", post("5c\r\n"+hidden+"\r\n0\r\n\r\n", chunked, "Content-Length: 4"))
	f.add(refuse, "TE with CL 0", post(plainChunks, chunked, "Content-Length: 0"))
	f.add(refuse, "CL 0 with TE", post(plainChunks, "Content-Length: 0", chunked))
	f.add(refuse, "TE with an empty CL", post(plainChunks, chunked, "Content-Length:"))
	f.add(refuse, "TE with a bad CL", post(plainChunks, chunked, "Content-Length: x"))
	f.add(refuse, "TE with two CL", post(plainChunks, chunked, right, right))
	f.add(refuse, "CL.TE in HTTP/1.0", message("POST /case-"+stamp+" HTTP/1.0", chunkedHidden, "Host: "+site, right, chunked))
	f.add(refuse, "TE in HTTP/1.0", message("POST /case-"+stamp+" HTTP/1.0", plainChunks, "Host: "+site, chunked))
	f.add(refuse, "TE in HTTP/1.0 that stays", message("POST /case-"+stamp+" HTTP/1.0", plainChunks, "Host: "+site, "Connection: keep-alive", chunked))
	for _, other := range []string{"chunked", "identity", "gzip", "cow", "", "x", "chunked, chunked"} {
		f.add(refuse, fmt.Sprintf("TE.TE chunked, then %q", other), post(plainChunks, chunked, "Transfer-Encoding: "+other))
		f.add(refuse, fmt.Sprintf("TE.TE %q, then chunked", other), post(plainChunks, "Transfer-Encoding: "+other, chunked))
		f.add(refuse, fmt.Sprintf("TE.TE and CL with %q", other), post(chunkedHidden, right, chunked, "Transfer-encoding: "+other))
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE", "PUT"} {
		f.add(refuse, "both with "+method, message(method+" /case-"+stamp+" HTTP/1.1", chunkedHidden, "Host: "+site, right, chunked))
		f.add(serve, "chunked "+method, message(method+" /case-"+stamp+" HTTP/1.1", plainChunks, "Host: "+site, chunked))
	}
	f.add(refuse, "coding behind a bare LF", post(chunkedHidden, right, "X: y\n"+chunked))
	f.add(refuse, "coding behind a bare CR", post(chunkedHidden, right, "X: y\r"+chunked))
	f.add(refuse, "coding behind a NUL", post(chunkedHidden, right, "X: y\x00"+chunked))
	f.add(refuse, "coding behind CR CR LF", post(chunkedHidden, right, "X: y\r\r\n"+chunked))
	f.add(serve, "coding inside a value", post(chunkedHidden, right, "X: "+chunked))
	f.add(serve, "coding inside a cookie", post(chunkedHidden, right, "Cookie: a=b; "+chunked))
	return f
}
