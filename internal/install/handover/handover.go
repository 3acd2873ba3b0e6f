// Package handover writes what installs a runtime for those who do it with their own
// tools: the commands of kubectl and Helm, and Terraform (R49 to R52, R76).
//
// It promises that what it prints installs the same as `slipway runtime install` with
// the same flags, and that every text is quoted for where it stands.
//
// It refuses to have the API key in what it prints: the key goes from a file into a
// Secret.
package handover

import (
	"fmt"
	"io"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"
)

// Value is a value of the chart.
type Value struct {
	Key, Text string
	// Plain is set for a value that is no string: true and false.
	Plain bool
}

// Request describes an installation.
type Request struct {
	Release, Namespace string
	Chart, Version     string
	// Values go over Files, and Sets over both, as Helm has it.
	Files  []string
	Values []Value
	// Sets and TextSets are as --set and --set-string of Helm have them.
	Sets, TextSets []string
	// Wait has Helm wait.
	Wait bool
	// KeyFile has the API key, which goes into KeySecret under KeyName. Without
	// one the values name the Secret.
	KeyFile, KeySecret, KeyName string
	// CAFile has the authorities of the platform, which go into CASecret.
	CAFile, CASecret string
}

// escaped returns the text as --set and Terraform's set parse it: a comma would
// start the next value, and a leading brace a list.
func (v Value) escaped() string {
	text := strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(v.Text)
	if strings.HasPrefix(text, "{") {
		return `\` + text
	}
	return text
}

// assignment formats the value for --set.
func (v Value) assignment() string { return v.Key + "=" + v.escaped() }

// Merge puts values into a tree.
func Merge(into map[string]any, values ...Value) error {
	for _, value := range values {
		// A text such as "true" or "007" has to stay a string.
		parse := strvals.ParseIntoString
		if value.Plain {
			parse = strvals.ParseInto
		}
		if err := parse(value.assignment(), into); err != nil {
			return fmt.Errorf("the value %s: %w", value.Key, err)
		}
	}
	return nil
}

// MergeSets applies --set and --set-string to a tree. Errors do not quote them:
// they may be secret.
func MergeSets(into map[string]any, sets, textSets []string) error {
	for _, given := range []struct {
		flag  string
		lines []string
		parse func(string, map[string]any) error
	}{{"--set", sets, strvals.ParseInto}, {"--set-string", textSets, strvals.ParseIntoString}} {
		for _, line := range given.lines {
			if err := given.parse(line, into); err != nil {
				// Only the key is quoted: what follows the equals sign may be
				// secret.
				key, _, _ := strings.Cut(line, "=")
				return fmt.Errorf("%s %s: write key=value, such as agent.replicas=2", given.flag, key)
			}
		}
	}
	return nil
}

// ShellWord quotes a text as one word of a POSIX shell.
func ShellWord(text string) string {
	// Words of safe characters stay unquoted, so that printed commands are easy
	// to read.
	plain := strings.IndexFunc(text, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:=@%+,", r)
	}) < 0
	if plain && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// keyCommands returns the commands that put the key into its Secret, from
// standard input, so that it is in no list of processes.
func (r *Request) keyCommands() []string {
	var lines []string
	if r.KeyFile != "" {
		// kubectl apply accepts a namespace that exists already, kubectl create
		// does not.
		lines = append(lines,
			fmt.Sprintf("kubectl create namespace %s --dry-run=client -o yaml | kubectl apply -f -", ShellWord(r.Namespace)),
			fmt.Sprintf("kubectl create secret generic %s --namespace %s --from-file=%s=/dev/stdin < %s", r.KeySecret, ShellWord(r.Namespace), r.KeyName, ShellWord(r.KeyFile)))
	}
	if r.CAFile != "" {
		lines = append(lines, fmt.Sprintf("kubectl create secret generic %s --namespace %s --from-file=%s", r.CASecret, ShellWord(r.Namespace), ShellWord("ca-bundle.crt="+r.CAFile)))
	}
	return lines
}

// Helm prints the commands (R49).
func Helm(w io.Writer, r Request) error {
	var text strings.Builder
	if lines := r.keyCommands(); len(lines) > 0 {
		text.WriteString("# 1. The API key goes into a Secret.\n" + strings.Join(lines, "\n") + "\n\n# 2. Helm installs the runtime, which joins with the key.\n")
	}
	words := []string{fmt.Sprintf("helm upgrade --install %s --create-namespace --namespace %s", ShellWord(r.Release), ShellWord(r.Namespace))}
	for _, file := range r.Files {
		words = append(words, "  --values "+ShellWord(file))
	}
	for _, value := range r.Values {
		flag := "--set-string"
		if value.Plain {
			flag = "--set"
		}
		words = append(words, "  "+flag+" "+ShellWord(value.assignment()))
	}
	for _, line := range r.Sets {
		words = append(words, "  --set "+ShellWord(line))
	}
	for _, line := range r.TextSets {
		words = append(words, "  --set-string "+ShellWord(line))
	}
	last := "  " + ShellWord(r.Chart)
	if r.Version != "" {
		last += " --version " + ShellWord(r.Version)
	}
	if r.Wait {
		last += " --wait"
	}
	text.WriteString(strings.Join(append(words, last), " \\\n") + "\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// Terraform prints a helm_release (R76).
func Terraform(w io.Writer, r Request) error {
	repository, chart := "", r.Chart
	// A helm_release has the repository and the name of the chart apart.
	if at := strings.LastIndex(r.Chart, "/"); at > 0 {
		repository, chart = r.Chart[:at], r.Chart[at+1:]
	}
	var text strings.Builder
	if lines := r.keyCommands(); len(lines) > 0 {
		text.WriteString("# The API key goes into a Secret before terraform apply, and is in no state of Terraform:\n")
		for _, line := range lines {
			text.WriteString("#   " + line + "\n")
		}
	}
	// By convention Terraform's resource names have underscores.
	_, _ = fmt.Fprintf(&text, "resource \"helm_release\" %s {\n", quoteHCL(strings.ReplaceAll(r.Release, "-", "_")))
	for _, line := range [][2]string{{"name", r.Release}, {"repository", repository}, {"chart", chart}, {"namespace", r.Namespace}, {"version", r.Version}} {
		if line[1] != "" {
			_, _ = fmt.Fprintf(&text, "  %-16s = %s\n", line[0], quoteHCL(line[1]))
		}
	}
	text.WriteString("  create_namespace = true\n")
	if !r.Wait {
		text.WriteString("  wait             = false\n")
	}
	if len(r.Files) > 0 {
		text.WriteString("  values = [\n")
		for _, file := range r.Files {
			text.WriteString("    file(" + quoteHCL(file) + "),\n")
		}
		text.WriteString("  ]\n")
	}
	text.WriteString("  set = [\n")
	for _, value := range r.Values {
		text.WriteString(setHCL(value.Key, value.escaped(), value.Plain))
	}
	// Sets keep their escaping: the provider parses values with the grammar of
	// --set.
	for _, line := range r.Sets {
		key, value, _ := strings.Cut(line, "=")
		text.WriteString(setHCL(key, value, true))
	}
	for _, line := range r.TextSets {
		key, value, _ := strings.Cut(line, "=")
		text.WriteString(setHCL(key, value, false))
	}
	text.WriteString("  ]\n}\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// setHCL is one element of set.
func setHCL(key, value string, plain bool) string {
	kind := ""
	if !plain {
		kind = `, type = "string"`
	}
	return fmt.Sprintf("    { name = %s, value = %s%s },\n", quoteHCL(key), quoteHCL(value), kind)
}

// quoteHCL is a text as HCL quotes it; ${ and %{ would be templates.
func quoteHCL(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "${", "$${", "%{", "%%{", "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text) + `"`
}
