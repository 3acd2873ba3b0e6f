package shadow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The kinds of tokens of a line.
const (
	wordToken = iota
	quotedToken
	bracketToken
)

// token is a part of a line: a word, a quoted text, or a text in brackets.
type token struct {
	kind int
	text string
}

// parseTextLine parses a line of the combined log format and its relatives. The time in
// brackets with the request behind it is what they share.
func parseTextLine(line string) (fields, error) {
	all := splitLine(line)
	at := slices.IndexFunc(all, func(t token) bool { return t.kind == bracketToken && strings.Count(t.text, ":") >= 3 })
	if at < 1 || len(all) < at+3 || all[at+1].kind != quotedToken {
		return nil, errLine
	}
	found := fields{}
	before, behind := all[:at], all[at+2:]
	// A host stands before the address of the client.
	client := 0
	if !isAddress(before[0].text) || len(before) > 1 && isAddress(before[1].text) {
		found.set("host", before[0].text)
		client = 1
	}
	if client < len(before) {
		found.set("remote_addr", before[client].text)
	}
	found.set("request", all[at+1].text)
	found.set("status", behind[0].text)
	if len(behind) < 4 || behind[2].kind != quotedToken || behind[3].kind != quotedToken {
		return found, nil // the common log format ends here
	}
	found.set("http_referer", behind[2].text)
	found.set("http_user_agent", behind[3].text)
	found.trailer(behind[4:])
	return found, nil
}

// trailer reads what controllers append to the combined log format.
func (f fields) trailer(rest []token) {
	switch {
	// ingress-nginx: length, time, [upstream] and [upstream of the canary].
	case len(rest) >= 4 && rest[2].kind == bracketToken && rest[3].kind == bracketToken:
		f.set("proxy_upstream_name", rest[2].text)
		f.set("proxy_alternative_upstream_name", rest[3].text)
	// Traefik: number, "router", "server" and time. The router is not the backend.
	case len(rest) >= 4 && rest[1].kind == quotedToken && rest[2].kind == quotedToken:
	// Other formats put the host at the end; nginx's own has X-Forwarded-For there.
	case len(rest) >= 1 && isHostName(rest[0].text):
		f.set("host", rest[0].text)
	}
}

// splitLine splits a line into its tokens.
func splitLine(line string) []token {
	var out []token
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		var one token
		switch line[0] {
		case '"':
			end := quoteEnd(line[1:])
			one, line = token{quotedToken, unescape(line[1 : 1+end])}, line[min(end+2, len(line)):]
		case '[':
			end := strings.IndexByte(line, ']')
			if end < 0 {
				end = len(line)
			}
			one, line = token{bracketToken, line[1:end]}, line[min(end+1, len(line)):]
		default:
			end := strings.IndexAny(line, " \t")
			if end < 0 {
				end = len(line)
			}
			one, line = token{wordToken, line[:end]}, line[end:]
		}
		out = append(out, one)
	}
	return out
}

// quoteEnd returns where a quoted text ends: at a quote without a backslash.
func quoteEnd(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// unescape reverses the escapes of nginx, \x22, and of Apache and Go, \".
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		if text[i] == 'x' && i+2 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(code))
				i += 2
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// LogFormat is a log format of nginx: text with variables.
type LogFormat struct {
	// parts alternate: text, variable, text, variable, text.
	texts, variables []string
	// json: values have the escapes of JSON, which nginx writes with escape=json.
	json bool
}

// CompileLogFormat compiles the text of nginx's log_format, which is log-format-upstream in
// the ConfigMap of ingress-nginx.
func CompileLogFormat(text string) (*LogFormat, error) {
	f := &LogFormat{json: strings.HasPrefix(strings.TrimSpace(text), "{")}
	literal := ""
	for text != "" {
		at := strings.IndexByte(text, '$')
		if at < 0 {
			literal, text = literal+text, ""
			break
		}
		literal += text[:at]
		name, rest := variableName(text[at+1:])
		if name == "" {
			return nil, fmt.Errorf("a $ of the format has no name of a variable behind it")
		}
		if literal == "" && len(f.variables) > 0 {
			return nil, fmt.Errorf("nothing separates $%s from the variable before it", name)
		}
		f.texts, f.variables = append(f.texts, literal), append(f.variables, name)
		literal, text = "", rest
	}
	f.texts = append(f.texts, literal)
	if !slices.ContainsFunc(f.variables, func(name string) bool { return name == "request" || name == "request_uri" || name == "uri" }) {
		return nil, fmt.Errorf("the format has none of $request, $request_uri and $uri")
	}
	return f, nil
}

// variableName returns the name at the start of a text, with or without braces.
func variableName(text string) (name, rest string) {
	if inner, found := strings.CutPrefix(text, "{"); found {
		name, rest, found = strings.Cut(inner, "}")
		if !found {
			return "", ""
		}
		return name, rest
	}
	end := strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	})
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// match reads a line of the format.
func (f *LogFormat) match(line string) (fields, error) {
	rest, ok := strings.CutPrefix(line, strings.TrimLeft(f.texts[0], " \t"))
	if !ok {
		return nil, errLine
	}
	found := fields{}
	for i, name := range f.variables {
		value, after := rest, ""
		if text := f.texts[i+1]; strings.TrimSpace(text) != "" || text != "" && i+1 < len(f.variables) {
			if value, after, ok = cutUnescaped(rest, text); !ok {
				return nil, errLine
			}
		}
		rest = after
		if f.json {
			value = unescapeJSON(value)
		} else {
			value = unescape(value)
		}
		found.set(canonicalVariable(name), value)
	}
	return found, nil
}

// cutUnescaped cuts at a text. A quote with a backslash before it does not end a value.
func cutUnescaped(line, text string) (before, after string, found bool) {
	for from := 0; ; {
		at := strings.Index(line[from:], text)
		if at < 0 {
			return "", "", false
		}
		at += from
		if text[0] != '"' || at == 0 || line[at-1] != '\\' {
			return line[:at], line[at+len(text):], true
		}
		from = at + 1
	}
}
