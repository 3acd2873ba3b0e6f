package h1

import (
	"fmt"

	"slipway.dev/slipway/internal/edge/normalize"
)

type editKind uint8

const (
	editSet editKind = iota
	editAdd
	editRemove
)

// Edit is one change to the headers of a message that is passed on. Edits are
// made once, when a filter is built; one that exists is valid. They apply in
// order.
type Edit struct {
	kind  editKind
	id    normalize.Field
	hint  uint8
	name  string
	value string
}

// SetField replaces all lines of a name by one. Other spellings of the name
// that backends mistake for it are removed too.
func SetField(name, value string) (Edit, error) { return newEdit(editSet, name, value) }

// AddField adds a line and leaves others of its name.
func AddField(name, value string) (Edit, error) { return newEdit(editAdd, name, value) }

// RemoveField removes all lines of a name, and of its other spellings.
func RemoveField(name string) (Edit, error) { return newEdit(editRemove, name, "") }

// With returns the edit with another value, for values known only when the
// request is.
func (e Edit) With(value string) (Edit, error) { return newEdit(e.kind, e.name, value) }

func newEdit(kind editKind, name, value string) (Edit, error) {
	if !token(normalize.Bytes(name)) {
		return Edit{}, fmt.Errorf("header name %q: a name has letters, digits and hyphens only", name)
	}
	id := normalize.FieldOf(normalize.Bytes(name))
	if framesMessage(id) {
		return Edit{}, fmt.Errorf("header %s is set by the proxy and cannot be changed", name)
	}
	if !cleanValue(normalize.Bytes(value)) {
		return Edit{}, fmt.Errorf("header %s: its value has a control character", name)
	}
	value = normalize.View(trim(normalize.Bytes(value)))
	return Edit{kind: kind, id: id, hint: nameHint(normalize.Bytes(name)), name: name, value: value}, nil
}

// framesMessage reports whether a header determines the end of a message or its
// destination. Host has an entry of its own in a plan. A rule that could remove
// CDN-Loop could make a loop that is not detected.
func framesMessage(id normalize.Field) bool {
	switch id {
	case normalize.FieldHost, normalize.FieldContentLength, normalize.FieldTransferEncoding,
		normalize.FieldConnection, normalize.FieldKeepAlive, normalize.FieldProxyConnection,
		normalize.FieldTE, normalize.FieldTrailer, normalize.FieldUpgrade, normalize.FieldHTTP2Settings,
		normalize.FieldExpect, normalize.FieldVariant, normalize.FieldCDNLoop:
		return true
	}
	return false
}

// nameHint is equal for names that are the same field, and rarely for others.
func nameHint(name []byte) uint8 { return uint8(len(name)) & 31 }

// editHints is the set of hints of the edits that remove lines, so that most
// lines are compared with none of them.
func editHints(edits []Edit) (hints uint32) {
	for i := range edits {
		if edits[i].kind != editAdd {
			hints |= 1 << edits[i].hint
		}
	}
	return hints
}

// removed reports whether one of edits removes the lines of name.
func removed(edits []Edit, name []byte) bool {
	for i := range edits {
		if edits[i].kind != editAdd && normalize.SameField(name, normalize.Bytes(edits[i].name)) {
			return true
		}
	}
	return false
}

// sets reports whether one of edits sets or removes a field.
func sets(edits []Edit, id normalize.Field) bool {
	for i := range edits {
		if edits[i].id == id && edits[i].kind != editAdd {
			return true
		}
	}
	return false
}

// AppendEdits appends the lines that edits add.
func AppendEdits(dst []byte, edits []Edit) []byte {
	for i := range edits {
		if adds(edits, i) {
			dst = appendField(dst, edits[i].name, edits[i].value)
		}
	}
	return dst
}

// adds reports whether edit i adds a line, which no later one removes.
func adds(edits []Edit, i int) bool {
	return edits[i].kind != editRemove && !removed(edits[i+1:], normalize.Bytes(edits[i].name))
}

// headCopy decides line by line which headers are passed on, and copies them.
type headCopy struct {
	fields *Fields
	named  []span // names that Connection lists
	edits  []Edit
	drop   *fieldSet
}

// fieldSet is a set of fields.
type fieldSet [256]bool

// appendTo appends the lines that pass. Adjacent lines are copied together, so that
// a usual head is one or two copies.
func (p *headCopy) appendTo(dst []byte) []byte {
	f := p.fields
	hints := editHints(p.edits)
	from, to := uint32(0), uint32(0)
	for i := range f.list {
		line := &f.list[i]
		keep := p.keeps(i, hints)
		if keep && line.plain {
			if from == to {
				from = line.start
			}
			to = line.end
			continue
		}
		dst = append(dst, f.buf[from:to]...)
		from, to = 0, 0
		if keep {
			dst = f.appendLine(dst, i)
		}
	}
	return append(dst, f.buf[from:to]...)
}

// keeps reports whether line i passes; hints are those of the edits.
func (p *headCopy) keeps(i int, hints uint32) bool {
	f := p.fields
	line := &f.list[i]
	keep := !p.drop[line.id]
	if keep && hints != 0 && hints&(1<<nameHint(f.buf[line.start:line.colon])) != 0 {
		keep = !removed(p.edits, f.Name(i))
	}
	if keep && len(p.named) > 0 && !line.id.Settled() {
		keep = !p.inConnection(f.Name(i))
	}
	return keep
}

// inConnection reports whether Connection lists name.
func (p *headCopy) inConnection(name []byte) bool {
	for _, option := range p.named {
		if normalize.SameField(option.of(p.fields.buf), name) {
			return true
		}
	}
	return false
}
