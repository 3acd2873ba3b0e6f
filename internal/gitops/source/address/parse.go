package address

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxText is longer than any address that hosts have.
const maxText = 2048

// The errors of Parse. They say what to write and never what was written.
var (
	errEmpty       = errors.New("the address is empty: " + hint)
	errLong        = errors.New("the address has more than 2048 characters")
	errCharacter   = errors.New("the address has a space, a backslash, a control character or one that is not ASCII: percent-encode what the path has of them, and write hosts in punycode")
	errQuery       = errors.New("the address has a query or a fragment: remove the ? or # and what follows it; " + secretHint)
	errCredentials = errors.New("the address has a user or a password: remove the part before the @; " + secretHint)
	errUser        = errors.New("the user of the address is not one that SSH hosts have: write an address such as git@example.com:team/app.git")
	errScheme      = errors.New("the scheme of the address is not supported: " + hint)
	errHost        = errors.New("the address has no proper host: write a name such as git.example.com, or an IP address in its usual form, without a dot at its end")
	errPort        = errors.New("the address has no proper port: write a number from 1 to 65535, or none")
	errPath        = errors.New("the path of the address has an empty part, . or .., or ends with /.git: write where the repository is, with single slashes")
	errEncoding    = errors.New("the path of the address has a percent-encoded character that is written as itself, or cannot be in a path: percent-encode only spaces and characters that are not ASCII")
	errHome        = errors.New("the path of the address begins with ~ and the user of SSH: write the path below the home directory, as in git@example.com:team/app.git")
	errRead        = errors.New("the address cannot be read: " + hint)
	errNotGit      = errors.New("the address is not that of a Git repository: " + hint)
)

const (
	hint       = "write an address such as https://example.com/team/app.git or git@example.com:team/app.git"
	secretHint = "credentials belong into a Secret with the label argocd.argoproj.io/secret-type"
)

// Parse reads an address as Applications name it: an https, http, ssh or oci
// URL, user@host:path of SSH, or a registry without a scheme.
func Parse(text string) (Address, error) {
	if err := checkText(text); err != nil {
		return Address{}, err
	}
	// The path of the short form of SSH can have :// too, behind its colon.
	scheme, rest, found := strings.Cut(text, "://")
	if found && !strings.ContainsAny(scheme, ":@/") {
		return parseURL(strings.ToLower(scheme), rest)
	}
	return parseBare(text)
}

// ParseGit is Parse for addresses of Git repositories.
func ParseGit(text string) (Address, error) {
	a, err := Parse(text)
	if err == nil && !a.IsGit() {
		err = errNotGit
	}
	if err != nil {
		return Address{}, err
	}
	return a, nil
}

// IsGit reports whether the address can be that of a Git repository: it is no
// registry, and has a path.
func (a Address) IsGit() bool { return a.Scheme != OCI && a.Path != "" }

// ParseForeign is Parse for addresses that hosts and Secrets have. They often
// name a user, which is dropped: the address is compared and never fetched with
// it.
func ParseForeign(text string) (Address, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch strings.ToLower(scheme) {
	case HTTPS, HTTP, OCI:
		authority, _, _ := strings.Cut(rest, "/")
		rest = rest[strings.LastIndexByte(authority, '@')+1:]
		text = scheme + "://" + rest
	}
	return Parse(text)
}

// checkText refuses characters that no part of an address has.
func checkText(text string) error {
	switch {
	case text == "":
		return errEmpty
	case len(text) > maxText:
		return errLong
	case strings.ContainsAny(text, "?#"):
		return errQuery
	}
	for i := range len(text) {
		if char := text[i]; char <= ' ' || char >= 0x7f || char == '\\' {
			return errCharacter
		}
	}
	return nil
}

// parseURL reads what follows the scheme.
func parseURL(scheme, rest string) (Address, error) {
	switch scheme {
	case HTTPS, HTTP, SSH, OCI:
	case "git+ssh", "ssh+git":
		scheme = SSH
	default:
		return Address{}, errScheme
	}
	authority, path, _ := strings.Cut(rest, "/")
	a := Address{Scheme: scheme}
	hostPort := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if scheme != SSH || strings.Contains(authority[:i], ":") {
			return Address{}, errCredentials
		}
		a.User, hostPort = authority[:i], authority[i+1:]
		if !isUser(a.User) {
			return Address{}, errUser
		}
	}
	host, port, hasPort, err := cutPort(hostPort)
	if err != nil {
		return Address{}, err
	}
	if a.Host, err = parseHost(host); err != nil {
		return Address{}, err
	}
	if hasPort {
		if !isPort(port) {
			return Address{}, errPort
		}
		if port != defaultPort(scheme) {
			a.Port = port
		}
	}
	return a.withPath(strings.TrimSuffix(path, "/"))
}

// parseBare reads an address without a scheme: user@host:path of SSH, or else a
// registry. A number behind the colon is a port of a registry, unless there is
// a user.
func parseBare(text string) (Address, error) {
	before, path, found := strings.Cut(text, ":")
	if user, rest, inBrackets := strings.Cut(text, "["); inBrackets && !strings.ContainsAny(user, ":/") {
		before, path, found = strings.Cut(rest, "]:")
		before = user + "[" + before + "]"
	}
	user, host, hasUser := strings.Cut(before, "@")
	number, _, _ := strings.Cut(path, "/")
	if !found || strings.Contains(before, "/") || !hasUser && isPort(number) {
		return parseURL(OCI, text)
	}
	a := Address{Scheme: SSH, User: user}
	if !hasUser {
		// A host of one letter is the drive of a Windows path.
		if a.User, host = "", before; len(host) < 2 {
			return Address{}, errRead
		}
	} else if !isUser(user) {
		return Address{}, errUser
	}
	var err error
	if a.Host, err = parseHost(host); err != nil {
		return Address{}, err
	}
	// An @ would be the end of a password.
	if strings.HasPrefix(path, ":") || strings.Contains(path, "@") {
		return Address{}, errRead
	}
	absolute, rooted := strings.CutPrefix(path, "/")
	a.Home = !rooted && path != "" && path[0] != '~'
	return a.withPath(strings.TrimSuffix(absolute, "/"))
}

// cutPort splits a host and its port.
func cutPort(text string) (host, port string, found bool, err error) {
	if !strings.HasPrefix(text, "[") {
		host, port, found = strings.Cut(text, ":")
		return host, port, found, nil
	}
	end := strings.IndexByte(text, ']')
	if end < 0 || len(text) > end+1 && text[end+1] != ':' {
		return "", "", false, errHost
	}
	host = text[:end+1]
	port, found = strings.CutPrefix(text[end+1:], ":")
	return host, port, found, nil
}

// isPort reports whether a text is the number of a port in its one spelling.
func isPort(text string) bool {
	number, err := strconv.ParseUint(text, 10, 16)
	return err == nil && number > 0 && strconv.FormatUint(number, 10) == text
}

// isUser reports whether SSH hosts can have a user of this name.
func isUser(text string) bool {
	return text != "" && text[0] != '-' && strings.Trim(text, unreserved) == ""
}

// parseHost reads a host. Addresses are accepted in their usual form only:
// clients disagree on others, such as 0x7f.1, and some connect to them.
func parseHost(text string) (string, error) {
	if inside, found := strings.CutPrefix(text, "["); found {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inside, "]"))
		if err != nil || !ip.Is6() || ip.Is4In6() || ip.Zone() != "" {
			return "", errHost
		}
		return ip.String(), nil
	}
	host := strings.ToLower(text)
	if len(host) > 253 {
		return "", errHost
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errHost
		}
		last = label
	}
	// A host whose last part is a number is an IP address, or none at all.
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is4() {
			return "", errHost
		}
	}
	return host, nil
}

// withPath checks the path and adds it. The home directory of SSH is a flag and
// no part of the path.
func (a Address) withPath(path string) (Address, error) {
	if rest, found := strings.CutPrefix(path, "~/"); found && a.Scheme == SSH {
		a.Home, path = true, rest
	}
	// A home directory has one spelling, so that a rule cannot be passed by
	// another one.
	owner, _, _ := strings.Cut(path, "/")
	if a.Scheme == SSH && (a.Home && path == "" || owner == "~" || owner == "~"+a.Canonical().User || a.Home && strings.HasPrefix(path, "~")) {
		return Address{}, errHome
	}
	// A dash could become an option of the host's program (CVE-2017-1000117).
	if a.Scheme == SSH && (strings.HasPrefix(path, "-") || strings.HasPrefix(path, ":")) {
		return Address{}, errRead
	}
	if path == "" {
		return a, nil
	}
	var clean strings.Builder
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return Address{}, errPath
		}
		if clean.Len() > 0 {
			clean.WriteByte('/')
		}
		if err := encodePart(&clean, part); err != nil {
			return Address{}, err
		}
	}
	a.Path = clean.String()
	if a.Path == ".git" || strings.HasSuffix(a.Path, "/.git") {
		return Address{}, errPath
	}
	if plain, err := url.PathUnescape(a.Path); err != nil || !utf8.ValidString(plain) {
		return Address{}, errEncoding
	}
	return a, nil
}

// The characters that a path has as themselves, and so never percent-encoded.
const (
	unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
	inPath     = unreserved + "!$&'()*+,;=:@"
)

// encodePart writes a part of a path with its one encoding.
func encodePart(to *strings.Builder, part string) error {
	for i := 0; i < len(part); i++ {
		if part[i] != '%' {
			if strings.IndexByte(inPath, part[i]) < 0 {
				return errEncoding
			}
			to.WriteByte(part[i])
			continue
		}
		char, ok := decodeAt(part, i)
		if !ok || char < ' ' || char == 0x7f || strings.IndexByte(inPath+`/\%`, char) >= 0 {
			return errEncoding
		}
		to.WriteString(strings.ToUpper(part[i : i+3]))
		i += 2
	}
	return nil
}

// decodeAt is the character that is percent-encoded at a place of a text.
func decodeAt(text string, i int) (byte, bool) {
	if len(text) < i+3 {
		return 0, false
	}
	char, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
	return byte(char), err == nil
}
