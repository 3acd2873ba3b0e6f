package nginx

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// pathAnnotations are about paths, and how a request is passed on.
var pathAnnotations = []Setting{
	{
		Name: "use-regex", Support: Done, Closes: true,
		Note:     "All paths of the host, in all its Ingresses, are expressions from their start, without regard to case.",
		Examples: []string{"true", "false"},
		read:     setBool(func(s *Settings) *bool { return &s.UseRegex }),
	},
	{
		Name: "rewrite-target", Support: Done, Closes: true,
		Note:     "The path that the backend gets; `$1` is the first group of the path. It makes all paths of the host expressions, as use-regex.",
		Examples: []string{"/", "/$1", "/app/$2", "/fixed/path"},
		read:     readTarget,
	},
	{
		Name: "x-forwarded-prefix", Support: Done,
		Note: "Header X-Forwarded-Prefix of requests with a rewritten path.", Examples: []string{"/shop"},
		read: setText(func(s *Settings) *string { return &s.ForwardedPrefix }),
	},
	{
		Name: "app-root", Support: Done, Closes: true,
		Note: "Requests for / are redirected to it, with 302.", Examples: []string{"/app", "/app/index.html"},
		read: readAppRoot,
	},
	{
		Name: "server-alias", Support: Done, Closes: true,
		Note:     "Further hosts of the rules. A host that an Ingress has as its own keeps its rules. Expressions (`~`) are refused.",
		Examples: []string{"alias.example", "one.alias.example,two.alias.example"},
		read:     readAliases,
	},
	{
		Name: "proxy-body-size", Support: Done, Closes: true,
		Note: "Larger bodies get 413. The default is 1m, and 0 is no limit.", Examples: []string{"1k", "8", "2m", "0"},
		read: readBodySize,
	},
	{
		Name: "proxy-connect-timeout", Support: Done,
		Note: "Seconds to connect to the backend; the default is 5.", Examples: []string{"1", "30"},
		read: setSeconds(func(s *Settings) *route.Duration { return &s.Timeouts.Connect }),
	},
	{
		Name: "proxy-read-timeout", Support: Done,
		Note: "Seconds between two reads from the backend; the default is 60.", Examples: []string{"1", "3600"},
		read: setSeconds(func(s *Settings) *route.Duration { return &s.stream.read }),
	},
	{
		Name: "proxy-send-timeout", Support: Done,
		Note: "Seconds between two writes to the backend; the default is 60. The longer of it and proxy-read-timeout bounds both ways.", Examples: []string{"1", "3600"},
		read: setSeconds(func(s *Settings) *route.Duration { return &s.stream.send }),
	},
	{
		Name: "proxy-next-upstream", Support: Done,
		Note: "Failures after which the request is sent to another endpoint; the default is `error timeout`.", Examples: []string{"off", "error", "error timeout http_502 http_503", "error non_idempotent"},
		read: readNextUpstream,
	},
	{
		Name: "proxy-next-upstream-tries", Support: Done,
		Note: "How often a request is sent at most; the default is 3. 0 is 5 here: a number without a bound is none that an edge can keep.", Examples: []string{"1", "2"},
		read: readTries,
	},
	{Name: "proxy-next-upstream-timeout", Support: Refused, Off: []string{"0"}, Note: "set proxy-next-upstream-tries, and slipway.dev/timeout-total for the whole exchange"},
	{Name: "proxy-request-buffering", Support: NoEffect, Note: "Bodies are streamed. `slipway.dev/buffering` reads them first."},
	{Name: "proxy-buffering", Support: NoEffect, Note: "Responses are streamed, and a slow client does not keep memory."},
	{Name: "proxy-buffer-size", Support: NoEffect, Note: "The edge has buffers of its own; response heads of up to 64 KiB pass."},
	{Name: "proxy-buffers-number", Support: NoEffect, Note: "The edge has buffers of its own."},
	{Name: "proxy-busy-buffers-size", Support: NoEffect, Note: "The edge has buffers of its own."},
	{Name: "proxy-max-temp-file-size", Support: NoEffect, Note: "The edge writes no bodies to disk."},
	{Name: "client-body-buffer-size", Support: NoEffect, Note: "The edge has buffers of its own."},
	{Name: "proxy-http-version", Support: NoEffect, Note: "Backends get HTTP/1.1 with persistent connections; `backend-protocol: GRPC` is HTTP/2."},
	{Name: "proxy-cookie-domain", Support: Refused, Off: []string{"off"}, Note: "let the application set the domain of its cookies"},
	{Name: "proxy-cookie-path", Support: Refused, Off: []string{"off"}, Note: "let the application set the path of its cookies"},
	{Name: "proxy-redirect-from", Support: Refused, Off: []string{"off", "default"}, Note: "let the application send the Location that clients can use"},
	{Name: "proxy-redirect-to", Support: Refused, Off: []string{"off"}, Note: "let the application send the Location that clients can use"},
}

// targetText is what ingress-nginx admits in a rewrite target.
var targetText = regexp.MustCompile(`^/[-._~a-zA-Z0-9/$:]*$`)

func readTarget(s *Settings, text string) error {
	if len(text) > maxText {
		return errLong
	}
	if !targetText.MatchString(text) {
		return fmt.Errorf("%.64q is not a path: write one such as /app/$1, without a query", text)
	}
	for _, name := range variable.FindAllString(text, -1) {
		if c := name[1]; c < '1' || c > '9' {
			return fmt.Errorf("the variable %.64s cannot stand in a path here: use groups such as $1", name)
		}
	}
	if strings.Contains(variable.ReplaceAllString(text, ""), "$") {
		return errors.New("a $ stands before no group: write $1 for the first")
	}
	s.RewriteTarget = text
	return nil
}

// appRootText is what ingress-nginx admits in app-root.
var appRootText = regexp.MustCompile(`^/[-._~a-zA-Z0-9/:]*$`)

func readAppRoot(s *Settings, text string) error {
	if len(text) > maxText || !appRootText.MatchString(text) {
		return fmt.Errorf("%.64q is not a path such as /app", text)
	}
	if text == "/" {
		return errors.New("it redirects / to itself: give another path")
	}
	s.AppRoot = text
	return nil
}

func readAliases(s *Settings, text string) error {
	list, err := parseList(text)
	if err != nil {
		return err
	}
	for _, alias := range list {
		if strings.HasPrefix(alias, "~") {
			return fmt.Errorf("%.64q is an expression: list the hosts", alias)
		}
	}
	s.Aliases = list
	return nil
}

func readBodySize(s *Settings, text string) error {
	size, err := parseSize(text)
	if err == nil {
		s.BodyBytes = size
	}
	return err
}

// unboundedTries takes the place of a number of tries without a bound.
const unboundedTries = 5

func readTries(s *Settings, text string) error {
	tries, err := parseCount(text, 10)
	if err != nil {
		return err
	}
	if tries == 0 {
		tries = unboundedTries
	}
	s.Retry.Tries = int(tries)
	return nil
}

// nextUpstream has the failures that nginx names.
var nextUpstream = map[string]Retry{
	"error":          {On: []route.RetryCondition{route.RetryConnect, route.RetryReset}},
	"timeout":        {On: []route.RetryCondition{route.RetryTimeout}},
	"invalid_header": {On: []route.RetryCondition{route.RetryReset}},
	"http_500":       {Statuses: []int{500}},
	"http_502":       {Statuses: []int{502}},
	"http_503":       {Statuses: []int{503}},
	"http_504":       {Statuses: []int{504}},
	"http_403":       {Statuses: []int{403}},
	"http_404":       {Statuses: []int{404}},
	"http_429":       {Statuses: []int{429}},
	"non_idempotent": {Unsafe: true},
	"off":            {},
}

func readNextUpstream(s *Settings, text string) error {
	retry := Retry{Tries: s.Retry.Tries}
	for word := range strings.FieldsSeq(text) {
		of, known := nextUpstream[word]
		if !known {
			return fmt.Errorf("%.64q is none of the failures of proxy_next_upstream", word)
		}
		for _, on := range of.On {
			retry.On = appendOnce(retry.On, on)
		}
		for _, status := range of.Statuses {
			retry.Statuses = appendOnce(retry.Statuses, status)
		}
		retry.Unsafe = retry.Unsafe || of.Unsafe
	}
	s.Retry = retry
	return nil
}

func appendOnce[T comparable](list []T, value T) []T {
	for _, known := range list {
		if known == value {
			return list
		}
	}
	return append(list, value)
}
