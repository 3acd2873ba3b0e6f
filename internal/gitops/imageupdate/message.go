package imageupdate

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"

	"slipway.dev/slipway/internal/gitops/imageupdate/strategy"
)

// Change is an image that was updated, as templates see it.
type Change struct {
	// Image and Name are the full name of the image, for messages and for branches.
	Image, Name    string
	Alias          string
	OldTag, NewTag string
	Labels         map[string]string
}

// Bounds of templates and what they make.
const (
	maxTemplateBytes = 1 << 10
	maxBranchBytes   = 255
	maxMessageBytes  = 8 << 10
	maxMessageText   = 16 << 10
)

// defaultMessage is the message of the Image Updater.
const defaultMessage = `build: automatic update of {{ .AppName }}

{{ range .AppChanges -}}
updates image {{ .Image }} tag '{{ .OldTag }}' to '{{ .NewTag }}'
{{ end -}}
`

// checkBranchTemplate refuses templates of tenants that could take long or make much of
// little: they run in the agent. Loops are over the images alone, and no function makes
// texts.
func checkBranchTemplate(text string) error {
	if len(text) > maxTemplateBytes {
		return fmt.Errorf("the template has more than %d bytes", maxTemplateBytes)
	}
	parsed, err := template.New("branch").Parse(text)
	if err != nil {
		return fmt.Errorf("the template cannot be read: %w", err)
	}
	if len(parsed.Templates()) > 1 {
		return errTemplate
	}
	if parsed.Tree == nil {
		return nil
	}
	return checkNodes(parsed.Root, false)
}

// errTemplate is the error of a part of a template that is not allowed.
var errTemplate = errors.New("a template of a branch has fields, if and one range over .Images: write it without the rest")

// checkNodes checks a part of a template.
func checkNodes(node parse.Node, inLoop bool) error {
	switch node := node.(type) {
	case *parse.ListNode:
		if node == nil {
			return nil
		}
		for _, below := range node.Nodes {
			if err := checkNodes(below, inLoop); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode, *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return checkPipe(node.Pipe)
	case *parse.IfNode:
		return cmp.Or(checkPipe(node.Pipe), checkNodes(node.List, inLoop), checkNodes(node.ElseList, inLoop))
	case *parse.RangeNode:
		// The one list that there is. Another loop in it could take long.
		if inLoop || node.Pipe.String() != ".Images" {
			return errTemplate
		}
		return cmp.Or(checkNodes(node.List, true), checkNodes(node.ElseList, inLoop))
	}
	return errTemplate
}

// checkPipe allows fields and comparisons.
func checkPipe(pipe *parse.PipeNode) error {
	if len(pipe.Decl) > 0 {
		return errTemplate
	}
	for _, command := range pipe.Cmds {
		for _, argument := range command.Args {
			switch argument := argument.(type) {
			case *parse.FieldNode, *parse.DotNode, *parse.StringNode, *parse.BoolNode:
			case *parse.IdentifierNode:
				switch argument.Ident {
				case "eq", "ne", "and", "or", "not":
				default:
					return errTemplate
				}
			default:
				return errTemplate
			}
		}
	}
	return nil
}

// boundedWriter fails after a number of bytes.
type boundedWriter struct {
	bytes.Buffer
	left int
}

// Write implements io.Writer.
func (w *boundedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("its result is too long")
	}
	return w.Buffer.Write(p)
}

// branchData is what templates of branches see.
type branchData struct {
	Images                []Change
	SHA1, SHA256          string
	TargetKey             string
	AppName, AppNamespace string
}

// branchName makes the name of a branch. Equal changes give equal names, so that a
// branch that exists already is found.
func branchName(text string, data branchData) (string, error) {
	if err := checkBranchTemplate(text); err != nil {
		return "", err
	}
	parsed, err := template.New("branch").Parse(text)
	if err != nil {
		return "", err
	}
	out := &boundedWriter{left: maxMessageBytes}
	if err := parsed.Execute(out, data); err != nil {
		return "", fmt.Errorf("the template of the branch: %w", err)
	}
	name := strings.TrimSpace(out.String())
	name = name[:min(len(name), maxBranchBytes)]
	if err := checkBranch(name); err != nil {
		return "", err
	}
	return name, nil
}

// checkBranch refuses what Git refuses as the name of a branch.
func checkBranch(name string) error {
	bad := name == "" || name == "@" || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") ||
		strings.HasSuffix(name, ".") || strings.ContainsAny(name, " ~^:?*[\\") || strings.Contains(name, "..") || strings.Contains(name, "//") || strings.Contains(name, "@{")
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	bad = bad || strings.ContainsFunc(name, func(c rune) bool { return c < 0x20 || c == 0x7f })
	if bad {
		return fmt.Errorf("%q is no name of a branch", name)
	}
	return nil
}

// digestOf is the sum of the changes.
func digestOf(changes []Change) string {
	sum := sha256.New()
	for _, change := range changes {
		fmt.Fprintf(sum, "%q %q %q\n", change.Name, change.OldTag, change.NewTag)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// commitMessage makes the message of a commit. The template is that of the
// administrator.
func commitMessage(text, app string, changes []Change) (string, error) {
	if len(text) > maxMessageText {
		return "", errors.New("the template of the message is too long")
	}
	parsed, err := template.New("message").Parse(cmp.Or(text, defaultMessage))
	if err != nil {
		return "", fmt.Errorf("the template of the message: %w", err)
	}
	out := &boundedWriter{left: maxMessageBytes}
	data := struct {
		AppName    string
		AppChanges []Change
	}{app, changes}
	if err := parsed.Execute(out, data); err != nil {
		return "", fmt.Errorf("the template of the message: %w", err)
	}
	return out.String(), nil
}

// tagText is a tag with its digest, as references have it behind the name.
func tagText(tag, digest string) string {
	if digest == "" {
		return tag
	}
	return tag + "@" + digest
}

// oldTag is the tag or digest of a reference.
func oldTag(reference string) string {
	image, err := strategy.ParseImage(reference)
	if err != nil {
		return reference
	}
	return cmp.Or(image.Digest, image.Tag)
}
