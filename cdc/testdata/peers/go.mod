module github.com/tidemark-go/tidemark/cdc/testdata/peers

go 1.25.0

require (
	github.com/bytedance/sonic v1.15.0
	github.com/goccy/go-json v0.12.0
	github.com/json-iterator/go v1.1.12
	github.com/tidemark-go/tidemark v0.0.0
)

require (
	github.com/bytedance/gopkg v0.1.3 // indirect
	github.com/bytedance/sonic/loader v0.5.0 // indirect
	github.com/cloudwego/base64x v0.1.6 // indirect
	github.com/klauspost/cpuid/v2 v2.2.9 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	golang.org/x/arch v0.0.0-20210923205945-b76863e36670 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/tidemark-go/tidemark => ../../..
