package expand

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// isExcluded reports whether a function of sprig is not available, as in Argo
// CD: the environment and the network show what the controller can see.
func isExcluded(name string) bool {
	return name == "env" || name == "expandenv" || name == "getHostByName"
}

// functionsOf returns the functions of templates. Each counts its arguments and
// results.
func functionsOf(b *budget) template.FuncMap {
	// Ours come first: sprig does not replace them.
	functions := template.FuncMap{
		"normalize": Normalize, "slugify": slugify,
		"toYaml": toYAML, "fromYaml": fromYAML, "fromYamlArray": fromYAMLArray,
		// Go's own, to be counted like the others.
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	}
	for name, function := range sprig.TxtFuncMap() {
		if _, ours := functions[name]; !ours && !isExcluded(name) {
			functions[name] = function
		}
	}
	for name, function := range functions {
		functions[name] = counted(b, name, function)
	}
	return functions
}

// counted wraps a function. Functions that can produce much from little check
// their arguments first.
func counted(b *budget, name string, function any) any {
	// The wrapper keeps the signature, as templates check it.
	inner := reflect.ValueOf(function)
	form := inner.Type()
	guard := guardOf(name)
	return reflect.MakeFunc(form, func(args []reflect.Value) []reflect.Value {
		b.charge(args)
		if guard != nil {
			guard(b, flat(args, form.IsVariadic()))
		}
		call := inner.Call
		if form.IsVariadic() {
			call = inner.CallSlice
		}
		results := call(args)
		b.charge(results)
		return results
	}).Interface()
}

// flat returns the arguments without their types, those of a variadic function
// one by one, so that guards can use their positions.
func flat(args []reflect.Value, variadic bool) []any {
	var values []any
	for i, arg := range args {
		// reflect passes variadic arguments as one slice.
		if variadic && i == len(args)-1 {
			for j := range arg.Len() {
				values = append(values, plain(arg.Index(j)))
			}
			continue
		}
		values = append(values, plain(arg))
	}
	return values
}

// plain returns the value of an argument; nil for none.
func plain(value reflect.Value) any {
	if !value.IsValid() || !value.CanInterface() {
		return nil
	}
	return value.Interface()
}

// guardOf returns the check of a function that can produce much from little;
// nil for others.
func guardOf(name string) func(*budget, []any) {
	// sprig has most functions twice: mustX returns an error where X does not.
	switch strings.TrimPrefix(name, "must") {
	case "repeat":
		return func(b *budget, args []any) { b.result(number(args, 0), lengthOf(args, 1)) }
	case "indent", "nindent":
		return func(b *budget, args []any) { b.result(number(args, 0)+1, strings.Count(textAt(args, 1), "\n")+1) }
	case "until":
		return func(b *budget, args []any) { b.result(number(args, 0), 16) }
	case "untilStep":
		return func(b *budget, args []any) { b.result(steps(number(args, 0), number(args, 1), number(args, 2)), 16) }
	case "seq":
		return guardSeq
	case "replace":
		return func(b *budget, args []any) { b.result(lengthOf(args, 2)+1, lengthOf(args, 1)+1) }
	case "regexReplaceAll", "RegexReplaceAll", "regexReplaceAllLiteral", "RegexReplaceAllLiteral":
		return func(b *budget, args []any) {
			guardExpression(b, args)
			b.result(lengthOf(args, 1)+1, lengthOf(args, 2)+1)
		}
	case "regexMatch", "RegexMatch", "regexFind", "RegexFind", "regexFindAll", "RegexFindAll", "regexSplit", "RegexSplit":
		return guardExpression
	case "wrapWith":
		return func(b *budget, args []any) { b.result(lengthOf(args, 2)+1, lengthOf(args, 1)+1) }
	case "join":
		return func(b *budget, args []any) { b.result(countAt(args, 1), lengthOf(args, 0)+1) }
	case "uniq", "Uniq", "without", "Without":
		return func(b *budget, args []any) { b.result(countAt(args, 0), countAt(args, 0)+len(args)) }
	case "printf":
		return guardFormat
	case "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes":
		return func(b *budget, args []any) { b.result(number(args, 0), 1) }
	case "bcrypt", "htpasswd", "derivePassword":
		return slow(hashesPerText)
	case "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey":
		return slow(keysPerText)
	}
	return nil
}

// How often one text may call functions that are slow on purpose.
const (
	hashesPerText = 32
	keysPerText   = 4
)

// slow makes one call of a function cost its share of the work of a text, and
// reads the clock each time.
func slow(perText int) func(*budget, []any) {
	return func(b *budget, _ []any) {
		b.checkTime()
		b.spend(maxWork / (perText + 1))
	}
}

// result counts a value before it is created.
func (b *budget) result(times, length int) {
	// The division avoids an overflow of the product.
	if times > 0 && length > 0 && times > maxValue/length {
		panic(limitError(fmt.Sprintf("a function would give more than %d KiB", maxValue>>10)))
	}
	b.spend(max(0, times*length))
}

// guardExpression bounds a regular expression: its time is that of the text
// times that of the expression.
func guardExpression(_ *budget, args []any) {
	if lengthOf(args, 0) > 512 || lengthOf(args, 1) > 64<<10 {
		panic(limitError("a regular expression has more than 512 characters, or its text more than 64 KiB"))
	}
}

// guardSeq bounds the length of a sequence.
func guardSeq(b *budget, args []any) {
	switch len(args) {
	case 1:
		b.result(steps(1, number(args, 0), 1)+steps(number(args, 0), 1, 1), 16)
	case 2:
		b.result(steps(number(args, 0), number(args, 1), 1)+steps(number(args, 1), number(args, 0), 1), 16)
	case 3:
		b.result(steps(number(args, 0), number(args, 2), number(args, 1)), 16)
	}
}

// guardFormat bounds widths such as that of %1000000d. The output limit alone
// is too late: printf allocates the whole width first.
func guardFormat(_ *budget, args []any) {
	format := textAt(args, 0)
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[i]) >= 0; i++ {
			end := i
			for end < len(format) && format[end] >= '0' && format[end] <= '9' {
				end++
			}
			width, _ := strconv.Atoi(format[i:end])
			// An asterisk takes the width from an argument, which is not
			// checked here.
			if format[i] == '*' || width > 1000 || end-i > 4 {
				panic(limitError("printf has a width of more than 1000"))
			}
			i = max(i, end-1)
		}
	}
}

// steps is the number of elements of a sequence.
func steps(start, stop, step int) int {
	step = cmp.Or(step, 1)
	// In floating point, because the difference of two integers can overflow.
	count := (float64(stop) - float64(start)) / float64(step)
	return int(min(max(0, count), float64(maxValue))) + 1
}

// number returns an argument as a number; 0 if it is missing or no integer. The
// guarded functions take integers only.
func number(args []any, at int) int {
	if at >= len(args) {
		return 0
	}
	value := reflect.ValueOf(args[at])
	if !value.IsValid() || !value.CanInt() {
		return 0
	}
	// Bounded, so that sums of two numbers cannot overflow.
	return int(min(max(value.Int(), -maxValue*16), maxValue*16))
}

// textAt returns an argument as text.
func textAt(args []any, at int) string {
	if at >= len(args) {
		return ""
	}
	text, _ := args[at].(string)
	return text
}

// lengthOf is the length of a text argument.
func lengthOf(args []any, at int) int { return len(textAt(args, at)) }

// countAt returns the length of a list argument.
func countAt(args []any, at int) int {
	if at >= len(args) {
		return 0
	}
	if value := reflect.ValueOf(args[at]); value.IsValid() && (value.Kind() == reflect.Slice || value.Kind() == reflect.Array) {
		return value.Len()
	}
	return 1
}

// toYAML encodes a value without the final newline, as Helm does.
func toYAML(value any) (string, error) {
	encoded, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(encoded), "\n"), err
}

// fromYAML decodes an object.
func fromYAML(text string) (map[string]any, error) {
	decoded := map[string]any{}
	err := yaml.Unmarshal([]byte(text), &decoded)
	return decoded, err
}

// fromYAMLArray decodes a list.
func fromYAMLArray(text string) ([]any, error) {
	decoded := []any{}
	err := yaml.Unmarshal([]byte(text), &decoded)
	return decoded, err
}
