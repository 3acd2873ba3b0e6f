package v1alpha1

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/declare"
)

// ShortForm implements [declare.Shortened].
func (*RateLimit) ShortForm() string { return "requests and period, such as `100/1s`" }

// UnmarshalShort reads a rate such as 100/1s, or 100/m for 100 in a minute.
func (r *RateLimit) UnmarshalShort(text string) error {
	count, period, found := strings.Cut(text, "/")
	requests, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
	if !found || err != nil || requests < 1 {
		return errors.New("it is not a rate: write requests and a time, such as 100/1s or 1000/m")
	}
	period = strings.TrimSpace(period)
	// A unit alone stands for one of it: 100/m is 100/1m.
	if strings.Trim(period, "msh") == "" {
		period = "1" + period
	}
	if err := r.Period.UnmarshalText([]byte(period)); err != nil || r.Period == 0 {
		return errors.New("the time of the rate cannot be read: write requests and a time, such as 100/1s or 1000/m")
	}
	r.Requests = requests
	return nil
}

// ShortForm implements [declare.Shortened].
func (*Compression) ShortForm() string { return "`true`, or the value of `encodings`" }

// UnmarshalShort reads true, or a list of encodings.
func (c *Compression) UnmarshalShort(text string) error {
	if yes, err := strconv.ParseBool(text); err == nil && yes {
		return nil
	}
	c.Encodings = declare.SplitList(text)
	for _, encoding := range c.Encodings {
		if !slices.Contains([]string{"gzip", "br", "zstd"}, encoding) {
			return fmt.Errorf("%.64q is no encoding: write true, or some of gzip, br, zstd", encoding)
		}
	}
	if len(c.Encodings) == 0 {
		return errors.New("it is empty: write true, or some of gzip, br, zstd")
	}
	return nil
}

// ShortForm implements [declare.Shortened].
func (*RequestKey) ShortForm() string {
	return "`client`, `host` or `path`, or such as `header:X-User` and `cookie:session`"
}

// UnmarshalShort reads a source, with the name of a header or cookie behind a
// colon. It accepts all too, which ShortForm does not list.
func (k *RequestKey) UnmarshalShort(text string) error {
	by, name, named := strings.Cut(text, ":")
	by, name = strings.TrimSpace(by), strings.TrimSpace(name)
	switch by {
	case "all", "client", "host", "path":
		if named {
			return fmt.Errorf("only header and cookie have a name: write %s alone", by)
		}
	case "header", "cookie":
		if name == "" {
			return fmt.Errorf("the name is missing: write such as %s:name", by)
		}
	default:
		return errors.New("it is none of client, host, path, header:name, cookie:name")
	}
	k.By, k.Name = by, name
	return nil
}

// ShortForm implements [declare.Shortened].
func (*StickyCookie) ShortForm() string { return "`true`, or the name of the cookie" }

// UnmarshalShort reads true, or the name of the cookie.
func (c *StickyCookie) UnmarshalShort(text string) error {
	if yes, err := strconv.ParseBool(text); err != nil || !yes {
		c.Name = text
	}
	return nil
}
