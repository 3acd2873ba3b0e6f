package rule

import (
	"errors"
	"fmt"
	"slices"

	"slipway.dev/slipway/internal/route"
)

// anyName is the server name of HostSNI(`*`): every one, and none.
const anyName = "*"

// CompileTCP returns the server names of a rule for connections, each a name, a wildcard,
// or empty for all. Connections are selected by their server name alone.
func CompileTCP(text string, options Options) ([]string, error) {
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	conjunctions, err := (&compiler{options: options, matchers: tcpMatchers(options.Syntax), connections: true}).conjunctions(parsed, false)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, literals := range conjunctions {
		name, err := serverName(literals)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// serverName returns the one server name that has to match.
func serverName(literals []route.Condition) (string, error) {
	name := ""
	for _, literal := range literals {
		switch {
		case literal.Not:
			return "", errors.New("! is not supported for connections: write the server names that the route is for")
		case literal.Host == anyName || literal.Host == name:
		case name != "":
			return "", fmt.Errorf("a connection has one server name, and both %s and %s have to match", name, literal.Host)
		default:
			name = literal.Host
		}
	}
	return name, nil
}

// tcpMatchers returns the matchers for connections by their names in lower case. Those
// that are known and not supported have their advice.
func tcpMatchers(syntax Syntax) map[string]matcherReader {
	most := 1
	if syntax == V2 {
		most = 0
	}
	refused := func(advice string) func([]string, *Options) ([]route.Condition, error) {
		return func([]string, *Options) ([]route.Condition, error) {
			return nil, errors.New("is not supported: " + advice)
		}
	}
	return map[string]matcherReader{
		"hostsni":       {least: 1, most: most, conditions: each(host)},
		"hostsniregexp": {least: 1, most: most, conditions: refused("write HostSNI with a name, or with a wildcard such as *.example.com")},
		"clientip":      {least: 1, most: most, conditions: refused("use a MiddlewareTCP with ipAllowList")},
		"alpn":          {least: 1, most: most, conditions: refused("use entry points of their own for protocols")},
	}
}
