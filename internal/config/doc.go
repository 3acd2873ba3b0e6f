// Package config holds the options of each role of the program as one struct,
// with its defaults and its checks, and loads it from three sources: a file
// (YAML or TOML), the environment (SLIPWAY_…) and command-line flags.
//
// It promises that the sources are layered, option by option: the file over
// the defaults, the environment over the file, the flags over both. It
// promises that nothing a user wrote is ignored: an unknown option, a value
// that does not fit, or one option in two spellings is an error that names the
// place and the fix, and all of them are reported at once. The list of options
// is derived from the struct (see [EdgeOptions] and [AgentOptions]), so that
// help, reference and suggestions cannot disagree with it.
//
// It refuses to read more than 1 MiB, to follow YAML aliases, and to show a
// [secret.Text]. It opens one file and nothing else: whether a file named by an
// option exists, or a selector parses, is for its user to find out.
//
// The command line (internal/cli) is its only caller; it passes the structs on
// to the components that it wires together.
//
// See decision 0005 in docs/decisions: our own readers for option sources,
// paerser's decoder behind them.
package config
