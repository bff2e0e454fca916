module github.com/tidemark-go/tidemark

go 1.25.0
