package gitprovider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// responseError converts a response without a 2xx status to an error with
// advice. The provider's own message is appended, without the token.
func (c *client) responseError(call call, response *http.Response, body []byte) *Error {
	// The detail comes from the server and may repeat the request.
	detail := c.scrub(errorDetail(body))
	// Kind and message follow from status, headers and body together.
	failure := &Error{Provider: c.kind, Status: response.StatusCode}
	switch status := response.StatusCode; {
	// GitHub reports rate limits with 403, so this case precedes the other
	// 403s.
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && isRateLimit(response.Header, detail):
		failure.Kind = RateLimited
		failure.Until = resetTime(response.Header, c.now())
		failure.Message = fmt.Sprintf("%s allows no more requests with this token until %s", c.kind.Title(), failure.Until.UTC().Format(time.RFC3339))
		return failure
	case status == http.StatusUnauthorized && !c.isForbidden(detail):
		failure.Kind, failure.Token = Denied, StateRevoked
		failure.Message = fmt.Sprintf("%s does not accept the token: it is wrong, expired or revoked; create a new one", c.kind.Title())
		// Only GitLab distinguishes the two; Bitbucket's text names both.
		if c.kind == GitLab && strings.Contains(detail, "expired") {
			failure.Token = StateExpired
			failure.Message = fmt.Sprintf("the token has expired at %s: create a new one", c.kind.Title())
		}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		failure.Kind = Denied
		failure.Message = fmt.Sprintf("%s does not let the token do this (%s)", c.kind.Title(), describeCall(call))
	case status == http.StatusNotFound, status == http.StatusGone:
		failure.Kind = NotFound
		failure.Message = fmt.Sprintf("%s does not find it, or the token may not see it (%s)", c.kind.Title(), describeCall(call))
	case status == http.StatusConflict:
		failure.Kind = Conflict
		failure.Message = fmt.Sprintf("%s has it already (%s)", c.kind.Title(), describeCall(call))
	// The client retries these itself; the error remains after the last
	// attempt.
	case status >= 500:
		failure.Kind = Unreachable
		failure.Message = fmt.Sprintf("%s fails with %d %s", response.Request.URL.Host, status, http.StatusText(status))
	default:
		failure.Kind = Invalid
		failure.Message = fmt.Sprintf("%s refuses the request with %d %s (%s)", c.kind.Title(), status, http.StatusText(status), describeCall(call))
	}
	// Rate limits have returned already: the reset time is sufficient.
	if detail != "" {
		failure.Message += ": " + detail
	}
	return failure
}

// isForbidden distinguishes a known user without permission from an unknown
// one: Bitbucket Server returns 401 for both.
func (c *client) isForbidden(detail string) bool {
	return c.kind == BitbucketServer && strings.Contains(detail, "not permitted")
}

// describeCall returns method and path of a call for a message.
func describeCall(call call) string {
	if call.path == "" {
		return call.method
	}
	return call.method + " " + call.path
}

// errorDetail returns the message of an error body of any of the four
// providers. A body that is not JSON is a proxy's error page and is ignored.
func errorDetail(body []byte) string {
	// One struct covers all four providers; absent fields stay empty.
	var shape struct {
		Message     json.RawMessage   `json:"message"`           // GitHub, GitLab
		Description string            `json:"error_description"` // GitLab, OAuth
		Error       json.RawMessage   `json:"error"`             // GitLab: text; Bitbucket Cloud: object
		Errors      []json.RawMessage `json:"errors"`            // GitHub: texts or objects; Bitbucket Server
	}
	if json.Unmarshal(body, &shape) != nil {
		return ""
	}
	var parts []string
	for _, raw := range append([]json.RawMessage{shape.Message, shape.Error}, shape.Errors...) {
		parts = append(parts, plainText(raw)...)
	}
	if shape.Description != "" {
		parts = append(parts, shape.Description)
	}
	return sanitize(strings.Join(parts, "; "))
}

// plainText reads a text, a list of texts, {field: [texts]}, or an object
// with a message.
func plainText(raw json.RawMessage) []string {
	var text string
	// GitLab's message is a string, an object of fields, or a list, depending
	// on the endpoint.
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil
		}
		return []string{text}
	}
	var object struct {
		Message string `json:"message"`
		Field   string `json:"field"`
		Code    string `json:"code"`
		Detail  struct {
			Required []string `json:"required"`
			Granted  []string `json:"granted"`
		} `json:"detail"`
	}
	if json.Unmarshal(raw, &object) == nil && (object.Message != "" || object.Code != "") {
		text := cmp.Or(object.Message, object.Field+" "+object.Code)
		if len(object.Detail.Required) > 0 {
			text += " (required: " + strings.Join(object.Detail.Required, ", ") + ")"
		}
		return []string{text}
	}
	var fields map[string][]string
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	var parts []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, field+" "+strings.Join(fields[field], ", "))
	}
	return parts
}

// sanitize bounds text from a server and removes control characters, so that
// it cannot forge log lines.
func sanitize(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	// Long bodies would hide the rest of the message.
	const most = 300
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + " …"
	}
	return strings.TrimSpace(text)
}

// isRateLimit reports whether a 403 is GitHub's primary or secondary rate
// limit.
func isRateLimit(header http.Header, detail string) bool {
	return header.Get("X-RateLimit-Remaining") == "0" || header.Get("Retry-After") != "" || strings.Contains(detail, "secondary rate limit")
}

// resetTime returns when requests are allowed again: after Retry-After, at
// the reset time of GitHub and GitLab, otherwise after a minute, as GitHub
// recommends.
func resetTime(header http.Header, now time.Time) time.Time {
	if seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32); err == nil && seconds >= 0 {
		return now.Add(time.Duration(seconds) * time.Second)
	}
	if at, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		return at
	}
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
		if epoch, err := strconv.ParseInt(header.Get(name), 10, 64); err == nil && epoch > 0 {
			return time.Unix(epoch, 0)
		}
	}
	return now.Add(time.Minute)
}
