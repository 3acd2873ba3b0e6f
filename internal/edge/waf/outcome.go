package waf

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corazawaf/coraza/v3/types"

	"slipway.dev/slipway/internal/edge/filter"
)

const (
	// logRate is how many requests that match rules are logged in a second.
	logRate = 20
	// maxLogged bounds the rules in a line, and the bytes of a message.
	maxLogged       = 16
	maxLoggedLength = 200
)

// Outcome is how a request was inspected.
type Outcome struct {
	// Denied reports that a rule ended it.
	Denied bool
	// Skipped reports that its body was too large, and passed uninspected.
	Skipped bool

	tx types.Transaction
}

// Matched returns the rules that matched and that are to be logged. The others only
// prepare variables.
func (o *Outcome) Matched() []types.MatchedRule {
	var matched []types.MatchedRule
	for _, rule := range o.tx.MatchedRules() {
		if isLogged(rule) {
			matched = append(matched, rule)
		}
	}
	return matched
}

// isLogged reports whether a match is to be logged. ModSecurity logs matches unless the
// rule has nolog. Coraza needs the action log or a SecDefaultAction, which the Core Rule
// Set has for requests only. Phase 5 only sums up.
func isLogged(rule types.MatchedRule) bool {
	if logged, ok := rule.(interface{ Log() bool }); !ok || logged.Log() {
		return true
	}
	return rule.Rule().Phase() < types.PhaseLogging && !strings.Contains(strings.ToLower(rule.Rule().Raw()), "nolog")
}

// Class returns the class of a rule by its number: 942 for the rules of the Core Rule Set
// against SQL injection, and custom for all that are not of that set. There are few, so
// that they can be a label of a metric.
func Class(rule int) string {
	if rule >= 900_000 && rule < 1_000_000 {
		return strconv.Itoa(rule / 1000)
	}
	return "custom"
}

// log writes a line about a request that matched rules.
func (c *Compiler) log(x *filter.Exchange, outcome *Outcome) {
	matched := outcome.Matched()
	if len(matched) == 0 {
		return
	}
	suppressed, allowed := c.limit.take(x.Now)
	if !allowed {
		return
	}
	rules := make([]int, 0, min(len(matched), maxLogged))
	message := ""
	for _, rule := range matched[:min(len(matched), maxLogged)] {
		rules = append(rules, rule.Rule().ID())
		if message == "" {
			message = template(rule.Rule().Raw())
		}
	}
	status := 0
	if interruption := outcome.tx.Interruption(); interruption != nil {
		status = interruption.Status
	}
	c.options.Log.Warn("request matched firewall rules", "denied", outcome.Denied, "status", status, "rules", rules, "message", message,
		slog.Group("request", "id", outcome.tx.ID(), "method", string(x.Head.Method()), "host", string(x.Head.URI.Host), "client", x.Client.String()),
		"suppressed", suppressed)
}

// template returns the message of a rule as it is written. The message of a match has
// values of the request in it, which may be secrets.
func template(rule string) string {
	_, rest, found := strings.Cut(rule, "msg:")
	if !found {
		return ""
	}
	end := strings.IndexAny(rest, ",\"")
	if quoted, ok := strings.CutPrefix(rest, "'"); ok {
		rest, end = quoted, strings.IndexByte(quoted, '\'')
	}
	if end >= 0 {
		rest = rest[:end]
	}
	return rest[:min(len(rest), maxLoggedLength)]
}

// logLimit bounds the lines of the log: a scan matches rules with every request.
type logLimit struct {
	mu         sync.Mutex
	second     int64
	count      int
	suppressed int
}

// take reports whether a line may be written, and how many were not since the last one.
func (l *logLimit) take(now time.Time) (suppressed int, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if second := now.Unix(); second != l.second {
		l.second, l.count = second, 0
	}
	if l.count++; l.count > logRate {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
