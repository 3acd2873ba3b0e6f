package archtest

import "regexp"

// SourceRules are rules for the files of a repository. Sizes are maxima.
type SourceRules struct {
	SkipAnywhere []string // folders to skip, by name
	SkipAtRoot   []string // folders to skip at the top only

	Names []string // names that no package, folder or Go file may have

	// Generated files are exempt from the sizes.
	FileLines      int
	FuncLines      int // without an exception
	FuncLinesLimit int // with one
	Params         int
	StructFields   int
	LongFuncs      []LongFunc
	// Unions are types of which one field is set, so that they have as many as there
	// are alternatives.
	Unions []Union

	Words []Word

	// Gone has the words that no file, and no name that it declares, may have,
	// with what to use instead. Tests are exempt. Text that users read may not
	// have them either, outside of Phrases: pages, charts and strings of Go
	// code. Wording are further patterns for such text.
	Gone    map[string]string
	Wording []Word
	Phrases []string
}

// LongFunc permits one function to be longer than FuncLines. An exception that
// is no longer needed is a finding, so the list does not grow stale.
type LongFunc struct {
	File   string // from the top of the repository, with slashes
	Func   string // Name, or Type.Name for a method
	Reason string
}

// Union permits one type to have more than StructFields fields, if all but its ID are
// pointers.
type Union struct {
	File string
	Type string
}

// Word is a pattern that no file may contain, in code, comments or text.
type Word struct {
	Pattern *regexp.Regexp
	Reason  string
}

// HouseRules returns the rules of this repository, for both modules.
func HouseRules() SourceRules {
	// The patterns are spelled so that they do not match themselves.
	const (
		machine = "it names a path of one developer's machine; use a path relative to the repository, or t.TempDir()"
		later   = "unfinished work belongs in an issue; finish it or leave it out"
	)
	return SourceRules{
		SkipAnywhere: []string{".git", "node_modules", "testdata", "vendor"},
		SkipAtRoot:   []string{"bin", "dist", "web"},

		Names: []string{"common", "helpers", "types", "util"},

		FileLines:      600,
		FuncLines:      80,
		FuncLinesLimit: 150,
		Params:         5,
		StructFields:   25,
		LongFuncs: []LongFunc{
			{"internal/archtest/table.go", "HouseTable", "one table, to be read from top to bottom"},
			{"internal/config/edge_test.go", "TestValidate", "a table of cases; the code below it is short"},
		},

		Unions: []Union{{"internal/route/policy.go", "Policy"}},

		Words: []Word{
			{regexp.MustCompile(`/[w]ork/(main|shared)\b`), machine},
			{regexp.MustCompile(`/[r]oot/`), machine},
			{regexp.MustCompile(`\bT[O]DO\b`), later},
			{regexp.MustCompile(`\bF[I]XME\b`), later},
			{regexp.MustCompile(`(?i)\bfor[ ]now\b`), later},
		},
		Gone: replacedWords(),
		Wording: []Word{
			{regexp.MustCompile(`(?i)\bnobody\b`), "name the user, the client or the component"},
			{regexp.MustCompile(`(?i)\bwhat is\b[^.,:;]{1,60}\bis\b`), "begin with the subject"},
			{regexp.MustCompile(`[a-z]\(e?s\)`), "write one and many, with finding.Count"},
		},
		// A program asks a person. The third is a value of an option, and the last
		// are Helm's words.
		Phrases: []string{"ask for confirmation", "asks for confirmation", "everyone or nobody", "schema(s)", "chart(s)"},
	}
}

// replacedWords returns the private words that names had, with those of the field.
// Words that the field has as well are left out: the audience of a token, the
// question of a prompt, the user nobody.
func replacedWords() map[string]string {
	return map[string]string{
		"accuse":       "mark failure",
		"acquit":       "mark success",
		"ailment":      "condition",
		"anew":         "again",
		"answer":       "response",
		"answered":     "responded",
		"answering":    "responding",
		"answers":      "responses",
		"appointment":  "scheduled item",
		"ask":          "request",
		"asked":        "requested",
		"asking":       "requesting",
		"asks":         "requests",
		"astray":       "destination error",
		"bury":         "add tombstone",
		"calm":         "steady",
		"census":       "summary",
		"charter":      "project",
		"clerk":        "issuer",
		"complain":     "log",
		"courier":      "transport",
		"crowd":        "flood",
		"cupboard":     "store",
		"farewell":     "drain",
		"fulfil":       "serve",
		"grave":        "tombstone",
		"graveyard":    "tombstones",
		"greet":        "handshake",
		"heeded":       "observed",
		"heritage":     "backup",
		"inquiry":      "check",
		"ledger":       "accounting",
		"linger":       "drain",
		"mailbox":      "relay",
		"misfit":       "mismatch",
		"obey":         "control",
		"patience":     "timeout",
		"probation":    "reduced limits",
		"rewire":       "reset",
		"roster":       "endpoint set",
		"said":         "message",
		"say":          "report",
		"says":         "message",
		"soil":         "mark dirty",
		"somebody":     "other",
		"spoilt":       "invalid",
		"suffer":       "observe",
		"surroundings": "environment",
		"tallies":      "counters",
		"tally":        "counters",
		"tell":         "report",
		"telling":      "reporting",
		"tells":        "reports",
		"timetable":    "timer heap",
		"told":         "reported",
		"trouble":      "problem",
		"troubles":     "problems",
		"trunk":        "shared connection",
		"unsaved":      "pending",
		"verdict":      "decision",
		"verdicts":     "decisions",
		"whoever":      "any",
		"wish":         "request",
		"wishes":       "requests",
		"witness":      "observer",
	}
}

// HouseProse returns the rules for the comments of this repository. The bounds
// come from a comparison with Contour, Flux, Caddy and controller-runtime,
// whose comments use the terms of the field: cache, queue, retry.
func HouseProse() ProseRules {
	const glossary = "docs/glossary.md has the words of the field"
	return ProseRules{
		MinComments: 0.20,
		Densities: []Density{
			{Name: "tell/told/says", Pattern: regexp.MustCompile(`(?i)\b(tell|tells|told|telling|says)\b`), Below: 5, Reason: glossary},
			{Name: "answer", Pattern: regexp.MustCompile(`(?i)\banswer(s|ed|ing)?\b`), Below: 1, Reason: "a server responds, a function returns; " + glossary},
			{Name: "somebody/nobody/whoever", Pattern: regexp.MustCompile(`(?i)\b(somebody|nobody|whoever)\b`), Below: 1, Reason: "name the component"},
			{Name: "words of the field", Pattern: regexp.MustCompile(`(?i)\b(cache[sd]?|caching|queue[sd]?|retr(y|ies|ied|ying)|backoff|time-?outs?|handlers?|reconcil\w*|status(es)?)\b`), Above: 40, Reason: glossary},
		},
	}
}
