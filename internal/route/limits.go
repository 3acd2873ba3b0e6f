package route

// The limits of a table. They are far above what people write, and low enough
// that no object can make every request slow or fill the memory.
const (
	// MaxTableBytes bounds what Decode reads.
	MaxTableBytes = 256 << 20
	// MaxEntryPoints bounds the entry points of a table.
	MaxEntryPoints = 63
	// MaxPathLength bounds a path in a rule or policy, in bytes.
	MaxPathLength = 4096
	// MaxExpressionLength bounds the text of a regular expression, in bytes.
	MaxExpressionLength = 1024
	// MaxExpressionSize bounds what an expression compiles to, in steps.
	MaxExpressionSize = 4096
	// MaxExpressionsPerHost bounds the rules of one host whose path is an
	// expression. They are tried one by one; the youngest are too many.
	MaxExpressionsPerHost = 128
	// MaxRulesPerPath bounds the rules of one host with one path, which differ
	// only in conditions and are tried one by one; the youngest are too many.
	MaxRulesPerPath = 1000
	// MaxRoutesPerServerName bounds the TCP routes with one server name.
	MaxRoutesPerServerName = 1000
	// MaxConditions bounds the header and query conditions of one rule.
	MaxConditions = 32
	// MaxPolicies bounds the policies of one rule, those in chains included.
	MaxPolicies = 64
	// MaxChainDepth bounds chains in chains.
	MaxChainDepth = 4
	// MaxBackendRefs bounds the backends of one rule.
	MaxBackendRefs = 64
	// MaxDirectives bounds the steps of the directives of one rule, and each of their
	// lists of headers.
	MaxDirectives = 256
	// MaxDirectiveVariables bounds the variables that they set, MaxDirectiveName the
	// name of one, and MaxDirectiveParts the parts of one text.
	MaxDirectiveVariables = 64
	MaxDirectiveName      = 64
	MaxDirectiveParts     = 64
	// MaxDirectiveValue bounds the value of a variable or text, in bytes.
	MaxDirectiveValue = 16 << 10
	// MaxDirectiveExpressions bounds what all expressions of the directives of one rule
	// compile to, in steps.
	MaxDirectiveExpressions = MaxExpressionSize
	// MaxResponseBody bounds the body of a response of the edge's own, in bytes.
	MaxResponseBody = 1 << 10
)
