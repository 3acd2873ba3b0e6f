package project

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/gitops/glob"
	"slipway.dev/slipway/internal/gitops/source/address"
)

// sourceRule is one entry of sourceRepos. Each part of an address is matched by
// the part of the pattern: a * in the host never takes a slash and so a path,
// and a ** in the path never takes a host.
type sourceRule struct {
	deny bool
	// everything is for the patterns * and **.
	everything               bool
	scheme, user, host, port matcher
	// paths are patterns of the path with a slash in front; one of them has to
	// match.
	paths []matcher
}

// match reports whether a canonical address is one of the pattern.
func (r *sourceRule) match(at address.Address) bool {
	if r.everything || r.host == nil {
		return r.everything
	}
	if !r.scheme.Match(at.Scheme) || at.Scheme == address.SSH && !r.user.Match(strings.ToLower(at.User)) ||
		!r.host.Match(at.Host) || !r.port.Match(at.Port) {
		return false
	}
	for _, path := range r.paths {
		// Hosts take any case in paths, and Argo CD compares so.
		if path.Match("/" + strings.ToLower(at.Path)) {
			return true
		}
	}
	return false
}

// errSplit is for patterns that cannot be matched part by part.
var errSplit = errors.New("a / is between braces or brackets: write a rule for each repository")

// parseSourceRule reads an entry of sourceRepos. One that cannot be read fails
// closed: it allows nothing, or forbids everything.
func parseSourceRule(text string) (sourceRule, error) {
	rest, deny := strings.CutPrefix(strings.TrimSpace(text), "!")
	rest = lowerASCII(strings.TrimSpace(rest))
	isAll := rest == "*" || rest == "**"
	if deny && isAll {
		return sourceRule{deny: true, everything: true}, errDenyAll
	}
	rule := sourceRule{deny: deny, everything: isAll}
	if isAll || rest == "" {
		return rule, nil
	}
	if err := rule.compile(rest); err != nil {
		return sourceRule{deny: deny, everything: deny}, err
	}
	return rule, nil
}

// compile splits a pattern in lower case into the parts of an address.
func (r *sourceRule) compile(text string) error {
	scheme, rest, hasScheme := strings.Cut(text, "://")
	if !hasScheme {
		rest = text
	}
	authority, path, err := splitPattern(rest, hasScheme, scheme)
	if err != nil {
		return err
	}
	if r.scheme, err = r.schemeRule(scheme, hasScheme, authority); err != nil {
		return err
	}
	user, hostPort, hasUser := cutLast(authority, "@")
	if !hasUser {
		hostPort = authority
	}
	host, port, err := splitHost(hostPort, scheme)
	if err != nil {
		return err
	}
	if r.host, err = glob.Compile(host); err != nil {
		return err
	}
	// As in a pattern that is compared as text, a * at the end of the host takes
	// the port, and one at its beginning the user.
	if r.port, err = partRule(port, port == "" && strings.HasSuffix(host, "*")); err != nil {
		return err
	}
	if !hasUser {
		user = "git" // the default of SSH
	}
	if r.user, err = partRule(user, !hasUser && (r.deny || strings.HasPrefix(host, "*"))); err != nil {
		return err
	}
	return r.compilePath(authority, path, rest)
}

// schemeRule matches the scheme. A pattern without one is for SSH and for
// registries, as Argo CD has it; one that forbids is for every way to the
// repository. Whatever forbids https forbids http.
func (r *sourceRule) schemeRule(scheme string, given bool, authority string) (matcher, error) {
	switch {
	case !given && (r.deny || strings.HasPrefix(authority, "**")):
		return always{}, nil
	case !given:
		return oneOf{address.SSH, address.OCI}, nil
	case scheme == "git+ssh", scheme == "ssh+git":
		return oneOf{address.SSH}, nil
	}
	pattern, err := glob.Compile(scheme)
	if err != nil || !r.deny || !pattern.Match(address.HTTP) && !pattern.Match(address.HTTPS) {
		return pattern, err
	}
	allowed := oneOf{address.HTTP, address.HTTPS}
	for _, other := range []string{address.SSH, address.OCI} {
		if pattern.Match(other) {
			allowed = append(allowed, other)
		}
	}
	return allowed, nil
}

// compilePath compiles the patterns of the path. A ** in the place of the host
// takes everything up to the path that follows it, and without one all paths.
func (r *sourceRule) compilePath(authority, path, rest string) error {
	path, err := encodePattern(strings.TrimSuffix(strings.TrimSuffix(path, "/"), ".git"))
	if err != nil {
		return err
	}
	texts := []string{"/" + path}
	if authority == "**" || r.deny && strings.HasSuffix(authority, "**") {
		texts = append(texts, "/**/"+path)
		if rest == authority {
			texts = []string{"/**"}
		}
	}
	for _, text := range texts {
		pattern, err := glob.CompileAddress(text)
		if err != nil {
			return err
		}
		r.paths = append(r.paths, pattern)
	}
	return nil
}

// splitPattern cuts a pattern without its scheme into authority and path: at
// the first slash, or at the colon of user@host:path. With ssh:// a colon that
// no number follows is of that form too, as Argo CD documents it.
func splitPattern(text string, hasScheme bool, scheme string) (authority, path string, err error) {
	depth, end := 0, len(text)
scan:
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '/':
			if depth > 0 {
				return "", "", errSplit
			}
			end = i
			break scan
		}
	}
	authority, path = text[:end], strings.TrimPrefix(text[end:], "/")
	before, after, found := strings.Cut(authority, ":")
	inBrackets := strings.LastIndexByte(before, '[') > strings.LastIndexByte(before, ']')
	if !found || inBrackets || hasScheme && !strings.HasSuffix(scheme, "ssh") {
		return authority, path, nil
	}
	ports := "0123456789"
	if !hasScheme {
		ports += portGlobs
	}
	if strings.Trim(after, ports) == "" && (hasScheme || !strings.Contains(before, "@")) {
		return authority, path, nil
	}
	path = strings.TrimPrefix(text[len(before)+1:], "/")
	return before, strings.TrimPrefix(path, "~/"), nil
}

// portGlobs are the characters that patterns of ports have besides digits.
const portGlobs = "*?[]{},-!"

// splitHost cuts the port from a host, and drops the default one.
func splitHost(text, scheme string) (host, port string, err error) {
	if inside, rest, found := strings.Cut(strings.TrimPrefix(text, "["), "]"); found && strings.HasPrefix(text, "[") && strings.Contains(inside, ":") {
		// An IPv6 address and no characters of a glob.
		parsed, err := address.Parse("https://[" + inside + "]")
		if err != nil {
			return "", "", err
		}
		host, port = parsed.Host, strings.TrimPrefix(rest, ":")
	} else {
		host, port, _ = strings.Cut(text, ":")
	}
	if strings.Trim(port, "0123456789"+portGlobs) != "" {
		return "", "", errors.New("it has no proper port behind the host: write a number or *")
	}
	if port == map[string]string{"https": "443", "http": "80", "ssh": "22", "oci": "443"}[scheme] {
		port = ""
	}
	return strings.TrimSuffix(host, "."), port, nil
}

// encodePattern gives the path of a pattern the encoding that paths of
// addresses have, in lower case.
func encodePattern(path string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		char := path[i]
		encoded := char == '%'
		if encoded {
			value, err := strconv.ParseUint(path[i+1:min(i+3, len(path))], 16, 8)
			if err != nil || len(path) < i+3 {
				return "", errors.New("it has a % that is not part of an encoded character")
			}
			char = byte(value)
			i += 2
		}
		lower := lowerASCII(string(rune(char)))
		switch {
		case char <= ' ' || char >= 0x7f || encoded && strings.IndexByte("\"<>^`{|}[]?#%\\", char) >= 0:
			fmt.Fprintf(&out, "%%%02x", char)
		case encoded && char == '*', encoded && char == ',', encoded && char == '!':
			out.WriteString(`\` + lower)
		default:
			out.WriteString(lower)
		}
	}
	return out.String(), nil
}

// lowerASCII leaves characters alone that are not ASCII: addresses have these
// percent-encoded, and their case counts.
func lowerASCII(text string) string {
	return strings.Map(func(char rune) rune {
		if char >= 'A' && char <= 'Z' {
			return char + 'a' - 'A'
		}
		return char
	}, text)
}

// partRule matches a part by a pattern, or any text.
func partRule(text string, any bool) (matcher, error) {
	if any {
		return always{}, nil
	}
	return glob.Compile(text)
}

// oneOf matches some texts.
type oneOf []string

func (o oneOf) Match(text string) bool { return slices.Contains(o, text) }

// cutLast splits a text at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+len(separator):], true
}
