package waf

import (
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"weak"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/route"
)

// maxRuleSets bounds the sets of rules that are compiled at one time. The Core Rule Set
// takes megabytes of memory, and each directive more in a text makes a set of its own.
const maxRuleSets = 64

// Options are the dependencies of a Compiler.
type Options struct {
	// Log gets a line for requests that match rules, at most some in a second.
	Log *slog.Logger
	// Observe is called for each request that was inspected, when it is over; it may
	// be nil. It must not keep the Outcome.
	Observe func(*Outcome)
}

// Compiler compiles directives into filters. It is safe for concurrent use.
type Compiler struct {
	options Options
	limit   logLimit
	// large is a semaphore: only some of the processors inspect large bodies, which
	// any client can send.
	large chan struct{}

	mu sync.Mutex
	// sets are the compiled sets of rules, by their directives. Filters own them, so
	// that one that no rule of the table uses any more is collected as garbage.
	sets map[string]weak.Pointer[ruleSet]
}

// New returns a Compiler. It compiles nothing.
func New(options Options) *Compiler {
	return &Compiler{options: options, large: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), sets: map[string]weak.Pointer[ruleSet]{}}
}

// ruleSet is a compiled set of rules.
type ruleSet struct {
	rules coraza.WAF
	// requestLimit bounds the body that is inspected, and fieldsLimit what of it is not
	// of files. partial lets longer ones pass uninspected, and responseLimit is as
	// SecResponseBodyLimit.
	requestLimit, fieldsLimit, responseLimit int64
	partial                                  bool
}

// Compile returns the filter of a policy.
func (c *Compiler) Compile(policy *route.WAF) (filter.Filter, error) {
	set, err := c.setOf(policy.Directives)
	if err != nil {
		return nil, err
	}
	return &inspector{compiler: c, set: set, idHeader: policy.IDHeader}, nil
}

// setOf returns the set of rules of directives, compiled once.
func (c *Compiler) setOf(directives string) (*ruleSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if set := c.sets[directives].Value(); set != nil {
		return set, nil
	}
	for key, known := range c.sets {
		if known.Value() == nil {
			delete(c.sets, key)
		}
	}
	if len(c.sets) >= maxRuleSets {
		return nil, refusal.New("directives", refusal.TooMany, "the edge has %d sets of rules already, the most there are: use the directives of another one", maxRuleSets)
	}
	set, err := compile(directives)
	if err != nil {
		return nil, err
	}
	c.sets[directives] = weak.Make(set)
	return set, nil
}

// The directives around those of a policy. Those before are defaults: matches are only
// reported, and bodies have the limit of the recommended settings. Those behind are
// final: an audit log would have bodies and passwords.
const (
	before = "SecRuleEngine DetectionOnly\nSecRequestBodyLimit 13107200\nSecResponseBodyLimit 524288\n"
	behind = "SecAuditEngine Off\n"

	detectionOnly = "detectiononly"
)

// includedSets are the directives of the sets in the program.
var includedSets = map[route.Included]string{
	route.IncludedRecommended: "Include @coraza.conf-recommended\n",
	route.IncludedCoreRules:   "Include @crs-setup.conf.example\nInclude @owasp_crs/*.conf\n",
}

// compile compiles directives. The files of included sets are those of the program: a
// directive cannot name another one.
func compile(directives string) (*ruleSet, error) {
	list, err := route.ParseDirectives(directives)
	if err != nil {
		return nil, refusal.New("directives", refusal.Invalid, "%v", err)
	}
	set := &ruleSet{requestLimit: route.MaxInspectedRequest, fieldsLimit: route.MaxInspectedFields, responseLimit: 512 << 10}
	var text strings.Builder
	engine := detectionOnly
	text.WriteString(before)
	for _, directive := range list {
		if directive.Set != route.NotIncluded {
			text.WriteString(includedSets[directive.Set])
			if directive.Set == route.IncludedRecommended {
				set.requestLimit, set.responseLimit, set.partial, engine = route.MaxInspectedRequest, 512<<10, false, detectionOnly
			}
			continue
		}
		if directive.Name != "secrequestbodynofileslimit" { // Coraza ignores it
			text.WriteString(directive.Text + "\n")
		}
		set.note(&directive, &engine)
	}
	text.WriteString(behind)
	// Coraza lets bodies over the limit pass while matches are only reported.
	set.partial = set.partial || engine == detectionOnly
	config := coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives(text.String()).WithRequestBodyInMemoryLimit(int(set.requestLimit))
	if set.rules, err = coraza.NewWAF(config); err != nil {
		return nil, refusal.New("directives", refusal.Invalid, "the rules cannot be compiled: %s", refusal.Shorten(err.Error(), 300))
	}
	if rules, ok := set.rules.(io.Closer); ok {
		// Expressions are shared between sets by Coraza, and released by Close.
		runtime.AddCleanup(set, func(rules io.Closer) { _ = rules.Close() }, rules)
	}
	return set, nil
}

// note keeps the settings that decide how much of a body is read. The last one counts.
func (s *ruleSet) note(directive *route.Directive, engine *string) {
	_, value, _ := strings.Cut(directive.Text, " ")
	switch directive.Name {
	case "secrequestbodylimit":
		s.requestLimit = directive.Number
	case "secrequestbodynofileslimit":
		s.fieldsLimit = directive.Number
	case "secresponsebodylimit":
		s.responseLimit = directive.Number
	case "secrequestbodylimitaction":
		s.partial = strings.EqualFold(strings.Trim(value, `"`), "ProcessPartial")
	case "secruleengine":
		*engine = strings.ToLower(strings.Trim(value, `"`))
	}
}
