package h1

// AppendEdits appends the lines that edits add, for a local response, which has no
// lines that they could replace.
func AppendEdits(dst []byte, edits []Edit) []byte { return appendEdits(dst, edits) }
