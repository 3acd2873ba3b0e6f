package filter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// The local responses to a request whose path cannot be rewritten. They are shared
// and never change.
var (
	badPath  = &LocalResponse{Status: 400, Reason: "BadRewrittenPath"}
	longPath = &LocalResponse{Status: 414, Reason: "LongRewrittenPath"}
)

// rewrite is SetPath for filters. OPTIONS * has no path, so path filters skip it.
func (x *Exchange) rewrite(path []byte) *LocalResponse {
	return pathError(x.SetPath(path))
}

// pathError returns the local response to an error of SetPath.
func pathError(err error) *LocalResponse {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, h1.ErrTargetTooLong):
		return longPath
	default:
		return badPath
	}
}

// fixedPath normalises a path of the table. A spelling that clients need a
// permission for is refused here, because SetPath would refuse it for every
// request.
func fixedPath(field, path string) (string, error) {
	canonical, hazards, err := normalize.RulePath(path)
	if err == nil {
		err = hazards.Check(normalize.NoHazard)
	}
	if err != nil {
		return "", invalid(field, "%v", err)
	}
	return canonical, nil
}

// addPrefix puts a prefix in front of the path.
type addPrefix struct{ prefix string }

func newAddPrefix(a *route.AddPrefix) (*addPrefix, error) {
	prefix, err := fixedPath("prefix", a.Prefix)
	return &addPrefix{prefix: prefix}, err
}

// Request implements [Filter].
func (f *addPrefix) Request(x *Exchange) *LocalResponse {
	if x.Head.URI.Asterisk {
		return nil
	}
	x.memory.work = append(append(x.memory.work[:0], f.prefix...), x.Path...)
	return x.rewrite(x.memory.work)
}

// stripPrefix removes the first of its prefixes that fits, by whole elements.
type stripPrefix struct{ prefixes []strippable }

// strippable is a prefix without the slash at its end, and the header that passes
// it on to the backend.
type strippable struct {
	prefix  string
	forward []h1.Edit
}

func newStripPrefix(a *route.StripPrefix) (*stripPrefix, error) {
	f := &stripPrefix{}
	for i, prefix := range a.Prefixes {
		field := fmt.Sprintf("prefixes[%d]", i)
		canonical, _, err := normalize.RulePath(prefix)
		if err != nil {
			return nil, invalid(field, "%v", err)
		}
		s := strippable{prefix: strings.TrimSuffix(canonical, "/")}
		if a.ForwardPrefix && s.prefix != "" {
			// Added, not set: what a trusted proxy or a filter before removed
			// is part of the prefix too.
			edit, err := h1.AddField("X-Forwarded-Prefix", s.prefix)
			if err != nil {
				return nil, invalid(field, "%v", err)
			}
			s.forward = []h1.Edit{edit}
		}
		f.prefixes = append(f.prefixes, s)
	}
	return f, nil
}

// Request implements [Filter].
func (f *stripPrefix) Request(x *Exchange) *LocalResponse {
	if x.Head.URI.Asterisk {
		return nil
	}
	for i := range f.prefixes {
		s := &f.prefixes[i]
		if !hasElements(x.Path, s.prefix) {
			continue
		}
		rest := x.Path[len(s.prefix):]
		if len(rest) == 0 {
			rest = normalize.Bytes("/")
		}
		x.RequestEdits = append(x.RequestEdits, s.forward...)
		return x.rewrite(rest)
	}
	return nil
}

// hasElements reports whether path starts with whole elements of prefix.
func hasElements(path []byte, prefix string) bool {
	return len(path) >= len(prefix) && string(path[:len(prefix)]) == prefix &&
		(len(path) == len(prefix) || path[len(prefix)] == '/')
}

// stripPrefixRegexp removes the start of a path that one of its expressions
// matches.
type stripPrefixRegexp struct {
	expressions []*regexp.Regexp
	// forward passes the prefix on to the backend, with header as the pattern.
	forward bool
	header  h1.Edit
}

func newStripPrefixRegexp(a *route.StripPrefixRegexp) (*stripPrefixRegexp, error) {
	f := &stripPrefixRegexp{forward: a.ForwardPrefix}
	for i, expression := range a.Regexps {
		compiled, err := regexp.Compile(`\A(?:` + expression + `)`)
		if err != nil {
			return nil, invalid(fmt.Sprintf("regexps[%d]", i), "not a regular expression in RE2 syntax: %v", err)
		}
		f.expressions = append(f.expressions, compiled)
	}
	header, err := h1.AddField("X-Forwarded-Prefix", "/")
	f.header = header
	return f, err
}

// Request implements [Filter].
func (f *stripPrefixRegexp) Request(x *Exchange) *LocalResponse {
	if x.Head.URI.Asterisk {
		return nil
	}
	for _, expression := range f.expressions {
		if !expression.Match(x.Path) {
			continue
		}
		end := expression.FindIndex(x.Path)[1]
		if end == 0 {
			continue
		}
		if insideEscape(x.Path, end) {
			return badPath
		}
		if f.forward {
			edit, err := f.header.With(x.keep(x.Path[:end]))
			if err != nil {
				return badPath
			}
			x.RequestEdits = append(x.RequestEdits, edit)
		}
		// Two slashes are one again in the canonical spelling.
		x.memory.work = append(append(x.memory.work[:0], '/'), x.Path[end:]...)
		return x.rewrite(x.memory.work)
	}
	return nil
}

// insideEscape reports whether cutting a canonical path at i cuts an escape:
// %2F would become the letters 2F.
func insideEscape(path []byte, i int) bool {
	return i < len(path) && (path[i-1] == '%' || i > 1 && path[i-2] == '%')
}

// replacePath replaces the whole path.
type replacePath struct{ path string }

func newReplacePath(a *route.ReplacePath) (*replacePath, error) {
	path, err := fixedPath("path", a.Path)
	return &replacePath{path: path}, err
}

// Request implements [Filter].
func (f *replacePath) Request(x *Exchange) *LocalResponse {
	if x.Head.URI.Asterisk {
		return nil
	}
	return x.rewrite(normalize.Bytes(f.path))
}

// replacePathRegexp replaces all matches of an expression in the path.
type replacePathRegexp struct{ rewriter *rewriter }

func newReplacePathRegexp(a *route.ReplacePathRegexp) (*replacePathRegexp, error) {
	rewriter, err := newRewriter(a.Regexp, a.Replacement)
	if err != nil {
		return nil, err
	}
	if err := rewriter.literals(checkPathText); err != nil {
		return nil, err
	}
	return &replacePathRegexp{rewriter: rewriter}, nil
}

// checkPathText refuses a replacement text that no canonical path could contain, so
// that the mistake shows when the table is compiled and not with each request.
func checkPathText(text string) error {
	if strings.ContainsAny(text, "?#") {
		return errors.New("a path has no ? and no #; the query is passed on as it came")
	}
	// A letter in front, so that a slash or a dot at the start stays what it is.
	whole := "/x" + text
	canonical, hazards, err := normalize.Path(nil, []byte(whole))
	if err == nil {
		err = hazards.Check(normalize.NoHazard)
	}
	if err == nil && string(canonical) != whole {
		err = fmt.Errorf("%q is not the spelling that paths have; write no //, /./ and /../, and escapes as %%C3%%A9, only where they are needed", text)
	}
	return err
}

// Request implements [Filter].
func (f *replacePathRegexp) Request(x *Exchange) *LocalResponse {
	if x.Head.URI.Asterisk {
		return nil
	}
	out, fits, err := f.rewriter.replace(x.memory.work[:0], x.Path, len(x.Head.URI.Path)+maxGrowth)
	x.memory.work = out
	if err != nil {
		return pathError(err)
	}
	if !fits {
		return nil
	}
	return x.rewrite(out)
}
