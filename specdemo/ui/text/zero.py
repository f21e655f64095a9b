"""What the page says of a GPU that is lent for seconds: each key in English, simplified and traditional Chinese.

SENTENCES: what zero_engine.py says in English, as ui/text/below.py has those of the floors below.
"""

WORDS = {
    "zero.lent": (
        "a GPU that ZeroGPU lends run by run, without CUDA graphs",
        "ZeroGPU 按次出借的 GPU，不用 CUDA graph",
        "ZeroGPU 按次出借的 GPU，不用 CUDA graph",
    ),
}

SENTENCES = {
    "ZeroGPU has no GPU yet on which to make weights {precision}: take {choices}.": (
        "ZeroGPU 此时还没有 GPU 可把权重转为 {precision}：请取 {choices}。",
        "ZeroGPU 此時還沒有 GPU 可把權重轉為 {precision}：請取 {choices}。",
    ),
    (
        "On ZeroGPU a run takes what was loaded at the start: {target} in {precision}, with one of the drafters "
        "{names}."
    ): (
        "在 ZeroGPU 上，运行只用启动时加载的模型：{precision} 的 {target}，起草者为 {names} 之一。",
        "在 ZeroGPU 上，執行只用啟動時載入的模型：{precision} 的 {target}，起草者為 {names} 之一。",
    ),
    (
        "ZeroGPU lent the GPU for {seconds} s, and the run did not end within them: ask for fewer new tokens, or run "
        "it again."
    ): (
        "ZeroGPU 出借 GPU {seconds} 秒，运行没有在其间结束：请减少新词元，或再运行一次。",
        "ZeroGPU 出借 GPU {seconds} 秒，執行沒有在其間結束：請減少新詞元，或再執行一次。",
    ),
    (
        "ZeroGPU lends no GPU for the {seconds} s of this run: the quota is used up. Sign in to huggingface.co, ask "
        "for fewer new tokens, or come back later ({said})."
    ): (
        "本次运行要 {seconds} 秒，而 ZeroGPU 的配额已用完。请登录 huggingface.co，减少新词元，或稍后再来（{said}）。",
        "本次執行要 {seconds} 秒，而 ZeroGPU 的配額已用完。請登入 huggingface.co，減少新詞元，或稍後再來（{said}）。",
    ),
    "ZeroGPU does not lend a GPU for as long as this run asks, {seconds} s: ask for fewer new tokens.": (
        "ZeroGPU 不会把 GPU 出借本次运行所要的 {seconds} 秒：请减少新词元。",
        "ZeroGPU 不會把 GPU 出借本次執行所要的 {seconds} 秒：請減少新詞元。",
    ),
    "No GPU of ZeroGPU was free for this run: try again in a minute.": (
        "ZeroGPU 没有空闲的 GPU 可供本次运行：请一分钟后再试。",
        "ZeroGPU 沒有空閒的 GPU 可供本次執行：請一分鐘後再試。",
    ),
    (
        "ZeroGPU took the GPU back before the run had ended ({seconds} s were asked for): ask for fewer new tokens, or "
        "run it again."
    ): (
        "运行结束前 ZeroGPU 收回了 GPU（曾申请 {seconds} 秒）：请减少新词元，或再运行一次。",
        "執行結束前 ZeroGPU 收回了 GPU（曾申請 {seconds} 秒）：請減少新詞元，或再執行一次。",
    ),
    "ZeroGPU could not run this ({said}): reload the page and run it again.": (
        "ZeroGPU 无法运行（{said}）：请重新载入页面后再运行。",
        "ZeroGPU 無法執行（{said}）：請重新載入頁面後再執行。",
    ),
}

ENGLISH, SIMPLIFIED, TRADITIONAL = ({key: three[i] for key, three in WORDS.items()} for i in range(3))
