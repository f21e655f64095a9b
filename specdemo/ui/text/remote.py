"""What the page says of lanes on servers: each key in English, simplified and traditional Chinese.

SENTENCES: what specdemo/remote says in English, as ui/text/below.py has those of the other floors.
"""

WORDS = {
    "remote.servers": (
        "{baseline} against {speculative}",
        "{baseline} 对 {speculative}",
        "{baseline} 對 {speculative}",
    ),
    "remote.sampling": (
        "draft length and rule are the servers' own",
        "草稿长度与规则由服务器决定",
        "草稿長度與規則由伺服器決定",
    ),
    "remote.mixed.lanes": (
        "not like for like: {here} on this machine, the other lane at {server}",
        "不可直接比较：{here}在本机，另一条泳道在 {server}",
        "不可直接比較：{here}在本機，另一條泳道在 {server}",
    ),
    "remote.mixed.mark": ("not like for like", "不可直接比较", "不可直接比較"),
    "remote.mixed": (
        "**Not like for like, {speedup}×:** {here} ran on this machine, the other lane at {server}. Engine and device "
        "differ, so this is no speedup of speculation.",
        "**不可直接比较，{speedup} 倍：**{here}在本机运行，另一条泳道在 {server}。"
        "引擎和设备不同，因此这不是投机解码的加速比。",
        "**不可直接比較，{speedup} 倍：**{here}在本機執行，另一條泳道在 {server}。"
        "引擎和裝置不同，因此這不是投機解碼的加速比。",
    ),
    "remote.mixed.live": (
        "**Not like for like, {speedup}× so far:** {here} runs on this machine, the other lane at {server}.",
        "**不可直接比较，至此 {speedup} 倍：**{here}在本机运行，另一条泳道在 {server}。",
        "**不可直接比較，至此 {speedup} 倍：**{here}在本機執行，另一條泳道在 {server}。",
    ),
    "remote.mixed.clocks": (
        "One lane runs here, one on a server: each is shown on its own clock, and they are not like for like.",
        "一条泳道在本机，一条在服务器：各按自己的时钟显示，不可直接比较。",
        "一條泳道在本機，一條在伺服器：各按自己的時鐘顯示，不可直接比較。",
    ),
    "baseline_server": ("Baseline's server", "基线的服务器", "基線的伺服器"),
    "baseline_server.info": (
        "Without speculation. One of those that this page was started with.",
        "不做投机解码。只能从启动本页面时允许的服务器中选择。",
        "不做投機解碼。只能從啟動本頁面時允許的伺服器中選擇。",
    ),
    "speculative_server": ("Speculative lane's server", "投机泳道的服务器", "投機泳道的伺服器"),
    "speculative_server.info": (
        "With speculation. One of those that this page was started with.",
        "做投机解码。只能从启动本页面时允许的服务器中选择。",
        "做投機解碼。只能從啟動本頁面時允許的伺服器中選擇。",
    ),
    "remote.live.faster": (
        "**{speedup}× faster so far:** who wrote each token is known once both lanes have ended.",
        "**至此速度为基线的 {speedup} 倍：**两条泳道结束后才知道每个词元由谁写。",
        "**至此速度為基線的 {speedup} 倍：**兩條泳道結束後才知道每個詞元由誰寫。",
    ),
    "remote.live.slower": (
        "**Slower so far, {speedup}×:** who wrote each token is known once both lanes have ended.",
        "**至此变慢，为基线的 {speedup} 倍：**两条泳道结束后才知道每个词元由谁写。",
        "**至此變慢，為基線的 {speedup} 倍：**兩條泳道結束後才知道每個詞元由誰寫。",
    ),
    "remote.live.equal": (
        "**No difference so far, {speedup}×:** who wrote each token is known once both lanes have ended.",
        "**至此没有差别，{speedup} 倍：**两条泳道结束后才知道每个词元由谁写。",
        "**至此沒有差別，{speedup} 倍：**兩條泳道結束後才知道每個詞元由誰寫。",
    ),
    "remote.told.faster": (
        "**{speedup}× faster:** each step of the server ({step} ms, its draft included) produced {tokens} tokens.",
        "**速度为基线的 {speedup} 倍：**服务器的每一步（{step} 毫秒，含起草）产出 {tokens} 个词元。",
        "**速度為基線的 {speedup} 倍：**伺服器的每一步（{step} 毫秒，含起草）產出 {tokens} 個詞元。",
    ),
    "remote.told.slower": (
        "**Slower, {speedup}×:** each step of the server ({step} ms, its draft included) produced {tokens} tokens, and "
        "{needed} are needed to pay for it.",
        "**变慢，为基线的 {speedup} 倍：**服务器的每一步（{step} 毫秒，含起草）产出 {tokens} 个词元，"
        "要 {needed} 个才回本。",
        "**變慢，為基線的 {speedup} 倍：**伺服器的每一步（{step} 毫秒，含起草）產出 {tokens} 個詞元，"
        "要 {needed} 個才回本。",
    ),
    "remote.told.equal": (
        "**No difference, {speedup}×:** the server's steps cost what the accepted drafts saved.",
        "**没有差别，{speedup} 倍：**草稿省下的时间，服务器的每一步又用掉了。",
        "**沒有差別，{speedup} 倍：**草稿省下的時間，伺服器的每一步又用掉了。",
    ),
    "remote.faster": (
        "**{speedup}× faster:** which tokens were drafted is not known.",
        "**速度为基线的 {speedup} 倍：**不知道哪些词元来自草稿。",
        "**速度為基線的 {speedup} 倍：**不知道哪些詞元來自草稿。",
    ),
    "remote.slower": (
        "**Slower, {speedup}×:** which tokens were drafted is not known.",
        "**变慢，为基线的 {speedup} 倍：**不知道哪些词元来自草稿。",
        "**變慢，為基線的 {speedup} 倍：**不知道哪些詞元來自草稿。",
    ),
    "remote.equal": (
        "**No difference, {speedup}×:** which tokens were drafted is not known.",
        "**没有差别，{speedup} 倍：**不知道哪些词元来自草稿。",
        "**沒有差別，{speedup} 倍：**不知道哪些詞元來自草稿。",
    ),
    "remote.none": (
        "**No speculation:** the server drafted nothing for this request. No speedup is shown.",
        "**没有投机：**服务器没有为这次请求起草，因此不显示加速比。",
        "**沒有投機：**伺服器沒有為這次請求起草，因此不顯示加速比。",
    ),
    "remote.clock.arrivals": (
        "The clock is that of arrivals, network included.",
        "时钟按到达时间，含网络。",
        "時鐘按到達時間，含網路。",
    ),
    "remote.clock.server": (
        "The clock is the servers' own; steps share it as their arrivals did.",
        "时钟是服务器自己的；各步按到达时间分摊。",
        "時鐘是伺服器自己的；各步按到達時間分攤。",
    ),
    "remote.told": (
        "{lane}: who wrote each token was told by the server for this request.",
        "{lane}：每个词元由谁写，是服务器为这次请求告知的。",
        "{lane}：每個詞元由誰寫，是伺服器為這次請求告知的。",
    ),
    "remote.counted": (
        "{lane}: who wrote each token comes from chunks that agree with the server's counters.",
        "{lane}：每个词元由谁写，来自与服务器计数相符的数据块。",
        "{lane}：每個詞元由誰寫，來自與伺服器計數相符的資料塊。",
    ),
    "remote.plain": (
        "{lane}: the server does not speculate.",
        "{lane}：该服务器不做投机解码。",
        "{lane}：該伺服器不做投機解碼。",
    ),
    "remote.unknown": (
        "{lane}: who wrote each token is not known; the passes are chunks of the stream, and approximate.",
        "{lane}：不知道每个词元由谁写；前向次数按数据块计，只是近似。",
        "{lane}：不知道每個詞元由誰寫；前向次數按資料塊計，只是近似。",
    ),
    "remote.shared": (
        "{lane}, figures of a shared server with {others} other requests ended meanwhile: {drafted} drafted, {share} % "
        "accepted, mean acceptance length {length}, accepted by position {at} %.",
        "{lane}：共用服务器的数字，期间另有 {others} 个请求结束："
        "起草 {drafted} 个，接受 {share} %，平均接受长度 {length}，按位置接受 {at} %。",
        "{lane}：共用伺服器的數字，期間另有 {others} 個請求結束："
        "起草 {drafted} 個，接受 {share} %，平均接受長度 {length}，按位置接受 {at} %。",
    ),
    "remote.gathered": (
        "{lane}: chunks that held several steps: {n}; there were more passes than counted.",
        "{lane}：有 {n} 个数据块含多步，因此实际前向次数多于所计。",
        "{lane}：有 {n} 個資料塊含多步，因此實際前向次數多於所計。",
    ),
    "remote.broken": (
        "**A lane's answer is not whole, or its tokens are not counted:** no speedup is shown.",
        "**一条泳道的回答不完整，或未计其词元数：**因此不显示加速比。",
        "**一條泳道的回答不完整，或未計其詞元數：**因此不顯示加速比。",
    ),
    "remote.textonly": (
        "{lane}: the server gave text without token ids, so that its tokens are not counted.",
        "{lane}：服务器只给出文本，没有词元编号，因此不计词元数。",
        "{lane}：伺服器只給出文字，沒有詞元編號，因此不計詞元數。",
    ),
    "remote.retokenised": (
        "{lane}: the server gave no token ids; they are its tokenizer's, chunk by chunk, and may be others.",
        "{lane}：服务器没有给出词元编号；这些是其分词器逐块给出的，可能不同。",
        "{lane}：伺服器沒有給出詞元編號；這些是其分詞器逐塊給出的，可能不同。",
    ),
    "remote.untemplated": (
        "{lane}: the server applied no chat template, and read the plain prompt.",
        "{lane}：服务器没有套用对话模板，读到的是原样的提示词。",
        "{lane}：伺服器沒有套用對話範本，讀到的是原樣的提示詞。",
    ),
    "remote.dropped": (
        "{lane}: the server does not know, and was not asked for: {what}.",
        "{lane}：服务器不支持、因而没有要求：{what}。",
        "{lane}：伺服器不支援、因而沒有要求：{what}。",
    ),
    "remote.baseline": (
        "The baseline's server speculates: start it without --speculative-config to compare with plain decoding.",
        "基线的服务器也在投机：请不带 --speculative-config 启动它，以便与普通解码比较。",
        "基線的伺服器也在投機：請不帶 --speculative-config 啟動它，以便與普通解碼比較。",
    ),
    "remote.settings": (
        "{lane} asked with {settings}",
        "{lane}的请求另带 {settings}",
        "{lane}的請求另帶 {settings}",
    ),
    "remote.settings.note": (
        "{lane}: its requests had {settings}, those of the other lane did not.",
        "{lane}：其请求另带 {settings}，另一条泳道的没有。",
        "{lane}：其請求另帶 {settings}，另一條泳道的沒有。",
    ),
    "remote.one": (
        "Both lanes ran on one server, one after the other; what each was asked with is what differs.",
        "两条泳道先后在同一台服务器上运行，差别只在各自请求所带的字段。",
        "兩條泳道先後在同一台伺服器上執行，差別只在各自請求所帶的欄位。",
    ),
    "remote.one.raced": (
        "Both lanes ran on one server at once and shared it, which slowed both: race them one after another.",
        "两条泳道同时在同一台服务器上运行并分享它，两者都变慢：请先后进行。",
        "兩條泳道同時在同一台伺服器上執行並分享它，兩者都變慢：請先後進行。",
    ),
    "remote.one.baseline": (
        "The baseline drafted, too: its --baseline-settings do not keep the server from drafting.",
        "基线也起草了：--baseline-settings 没有让服务器停止起草。",
        "基線也起草了：--baseline-settings 沒有讓伺服器停止起草。",
    ),
    "remote.passes.note": ("chunks, not passes", "数据块，而非前向", "資料塊，而非前向"),
    "remote.clocks": (
        "Two servers answer the same request; each lane is shown on its own clock.",
        "两台服务器回答同一请求；每条泳道按自己的时钟显示。",
        "兩台伺服器回答同一請求；每條泳道按自己的時鐘顯示。",
    ),
    "remote.costs": (
        "drafting and verification together",
        "起草与验证合计",
        "起草與驗證合計",
    ),
    "remote.glass": (
        "What the server tells of this step",
        "服务器对这一步所告知的",
        "伺服器對這一步所告知的",
    ),
    "remote.glass.drafted": (
        "{accepted} of {drafted} drafted tokens were accepted. Which ones were refused is not told, nor p and q.",
        "起草的 {drafted} 个词元中接受了 {accepted} 个。被拒的是哪些、p 与 q 是多少，服务器没有告知。",
        "起草的 {drafted} 個詞元中接受了 {accepted} 個。被拒的是哪些、p 與 q 是多少，伺服器沒有告知。",
    ),
    "remote.glass.of": (
        "**Piece {step}** of {steps}",
        "共 {steps} 段，**第 {step} 段**",
        "共 {steps} 段，**第 {step} 段**",
    ),
    "remote.glass.time": (
        "{ms} ms until this piece of text came",
        "{ms} 毫秒后这段文本到达",
        "{ms} 毫秒後這段文字到達",
    ),
    "remote.glass.unknown": (
        "A chunk of the stream, perhaps of several steps: nobody tells who wrote its tokens.",
        "数据流中的一块，可能含多步：没有告知其词元由谁写。",
        "資料流中的一塊，可能含多步：沒有告知其詞元由誰寫。",
    ),
    "remote.mode.info": (
        "Raced asks both servers at once, which is fair where each has a device of its own; one after another gives "
        "a device that they share to each.",
        "同时竞速会同时向两台服务器发请求，各有自己的设备时才公平；先后进行则让共用的设备轮流归各自使用。",
        "同時競速會同時向兩台伺服器發請求，各有自己的裝置時才公平；先後進行則讓共用的裝置輪流歸各自使用。",
    ),
    "remote.summary": (
        "up to {max_new_tokens} tokens",
        "至多 {max_new_tokens} 词元",
        "至多 {max_new_tokens} 詞元",
    ),
    "refused.theirs": (
        "**Cannot run this:** {name} is the servers' own and cannot be set here. Leave it out.",
        "**无法运行：**{name} 由服务器决定，此处不能设置。请不要指定。",
        "**無法執行：**{name} 由伺服器決定，此處不能設定。請不要指定。",
    ),
    "lab.closed.remote": (
        "**Needs models on this machine:** servers tell too little of a step, or take no other drafter. Load a result "
        "to look at.",
        "**需要本机上的模型：**服务器对每一步说得太少，也不接受其他起草方式。请载入一份结果查看。",
        "**需要本機上的模型：**伺服器對每一步說得太少，也不接受其他起草方式。請載入一份結果檢視。",
    ),
    "lab.closed.mixed": (
        "**An experiment compares like with like:** one lane runs here and one on a server. Load a result to look at.",
        "**实验只比较同类：**这里一条泳道在本机，一条在服务器。请载入一份结果查看。",
        "**實驗只比較同類：**這裡一條泳道在本機，一條在伺服器。請載入一份結果檢視。",
    ),
}

SENTENCES = {
    "{error} What had arrived is kept.": (
        "{error}已到达的部分予以保留。",
        "{error}已到達的部分予以保留。",
    ),
    "The servers serve {model} now, not {before}: run again to race that, or start them with {given}.": (
        "服务器现在提供的是 {model}，而不是 {before}：再运行一次即用它竞速，或用 {given} 重新启动服务器。",
        "伺服器現在提供的是 {model}，而不是 {before}：再執行一次即用它競速，或用 {given} 重新啟動伺服器。",
    ),
    (
        "The servers have loaded {now} as {model} now, not {then}: run again to race that, or start them with what "
        "they had."
    ): (
        "服务器现在以 {model} 之名载入的是 {now}，而不是 {then}：再运行一次即用它竞速，或用原来的模型重新启动服务器。",
        "伺服器現在以 {model} 之名載入的是 {now}，而不是 {then}：再執行一次即用它競速，或用原來的模型重新啟動伺服器。",
    ),
    (
        "The servers hold {now} tokens now, not {then}: run again with that, or start them with the --max-model-len "
        "that they had."
    ): (
        "服务器现在容纳 {now} 个词元，而不是 {then} 个：再运行一次即按此进行，或用原来的 --max-model-len 启动。",
        "伺服器現在容納 {now} 個詞元，而不是 {then} 個：再執行一次即按此進行，或用原來的 --max-model-len 啟動。",
    ),
    "The server at {name} takes no more requests for now ({what}): wait {seconds} s, and run again.": (
        "{name} 的服务器暂时不再接受请求（{what}）：请等 {seconds} 秒后再运行。",
        "{name} 的伺服器暫時不再接受請求（{what}）：請等 {seconds} 秒後再執行。",
    ),
    (
        "The server at {name} serves {model}, and the lane here runs {target}: start both with the same model. If it "
        "is the same under another name, say so with --model {given}."
    ): (
        "{name} 的服务器提供 {model}，而本机泳道运行 {target}：请用同一模型启动两者。"
        "若是同一模型的别名，请用 --model {given} 说明。",
        "{name} 的伺服器提供 {model}，而本機泳道執行 {target}：請用同一模型啟動兩者。"
        "若是同一模型的別名，請用 --model {given} 說明。",
    ),
    (
        "The server at {name} cannot say which tokens a prompt has (/tokenize), so that nobody knows whether it reads "
        "the same as the lane here: take a vLLM server."
    ): (
        "{name} 的服务器无法给出提示词的词元（/tokenize），因此不知道它与本机泳道读到的是否相同：请用 vLLM 服务器。",
        "{name} 的伺服器無法給出提示詞的詞元（/tokenize），因此不知道它與本機泳道讀到的是否相同：請用 vLLM 伺服器。",
    ),
    (
        "The server at {name} and the lane here make different tokens of the prompt: take the same model and chat "
        "template for both."
    ): (
        "{name} 的服务器与本机泳道对提示词给出不同的词元：请用同一模型和对话模板。",
        "{name} 的伺服器與本機泳道對提示詞給出不同的詞元：請用同一模型和對話範本。",
    ),
    "The servers cannot say which tokens a prompt has (/tokenize), so nothing is measured: take vLLM's.": (
        "服务器无法给出提示词的词元（/tokenize），因此不做测量：请用 vLLM 服务器。",
        "伺服器無法給出提示詞的詞元（/tokenize），因此不做測量：請用 vLLM 伺服器。",
    ),
    (
        "The server at {name} told its own times of earlier answers and not of this one: run again, to go on by the "
        "clock of arrivals."
    ): (
        "{name} 的服务器对先前的回答给出了自己的时间，对这次没有：请再运行一次，按到达时间继续。",
        "{name} 的伺服器對先前的回答給出了自己的時間，對這次沒有：請再執行一次，按到達時間繼續。",
    ),
    "The server at {name} answered without a token: see what it logged.": (
        "{name} 的服务器没有给出任何词元：请查看其日志。",
        "{name} 的伺服器沒有給出任何詞元：請查看其記錄。",
    ),
    "Asking {one} and {other} what they serve": (
        "正在询问 {one} 与 {other} 提供什么",
        "正在詢問 {one} 與 {other} 提供什麼",
    ),
    "The two servers make different tokens of the prompt: start both with the same model and chat template.": (
        "两台服务器对提示词给出不同的词元：请用同一模型和对话模板启动两者。",
        "兩台伺服器對提示詞給出不同的詞元：請用同一模型和對話範本啟動兩者。",
    ),
    (
        "The prompt takes {n} tokens, and the servers hold {context}, the answer included: shorten it, or start them "
        "with a larger --max-model-len."
    ): (
        "提示词有 {n} 个词元，而服务器连同回答只容 {context} 个：请缩短，或以更大的 --max-model-len 启动服务器。",
        "提示詞有 {n} 個詞元，而伺服器連同回答只容 {context} 個：請縮短，或以更大的 --max-model-len 啟動伺服器。",
    ),
    (
        "The servers serve {one} and {other}: start both with the same model, or give it one name with "
        "--served-model-name."
    ): (
        "两台服务器分别提供 {one} 与 {other}：请用同一模型启动，或用 --served-model-name 取同一名称。",
        "兩台伺服器分別提供 {one} 與 {other}：請用同一模型啟動，或用 --served-model-name 取同一名稱。",
    ),
    (
        "Both lanes would ask the same of one server, {url}: name another one, or say with --baseline-settings or "
        "--speculative-settings what a lane's requests have that the other's do not."
    ): (
        "两条泳道会向同一台服务器 {url} 提出相同的请求：请另选一台，或用 --baseline-settings 或 "
        "--speculative-settings 说明一条泳道的请求与另一条有何不同。",
        "兩條泳道會向同一台伺服器 {url} 提出相同的請求：請另選一台，或用 --baseline-settings 或 "
        "--speculative-settings 說明一條泳道的請求與另一條有何不同。",
    ),
    (
        "The server at {name} does not serve {model}: it has {listed}. Start it with that one, or name another with "
        "--model."
    ): (
        "{name} 的服务器不提供 {model}：它有 {listed}。请用该模型启动，或用 --model 另指一个。",
        "{name} 的伺服器不提供 {model}：它有 {listed}。請用該模型啟動，或用 --model 另指一個。",
    ),
    "The server at {name} serves {listed}: choose one with --model.": (
        "{name} 的服务器提供 {listed}：请用 --model 选一个。",
        "{name} 的伺服器提供 {listed}：請用 --model 選一個。",
    ),
    "The server at {name} serves no model: start it with one.": (
        "{name} 的服务器没有提供模型：请带模型启动。",
        "{name} 的伺服器沒有提供模型：請帶模型啟動。",
    ),
    (
        "The servers at {one} and {other} cannot say which tokens a prompt has (/tokenize): race them in a terminal, "
        "with python -m specdemo remote."
    ): (
        "{one} 与 {other} 的服务器无法给出提示词的词元（/tokenize）：请在终端用 python -m specdemo remote 竞速。",
        "{one} 與 {other} 的伺服器無法給出提示詞的詞元（/tokenize）：請在終端機用 python -m specdemo remote 競速。",
    ),
    "{url} is no address of a server: write http://HOST:PORT or https://HOST.": (
        "{url} 不是服务器地址：请写 http://主机:端口 或 https://主机。",
        "{url} 不是伺服器位址：請寫 http://主機:連接埠 或 https://主機。",
    ),
    "A server's address takes no name, password, query or fragment: a key goes to --api-key-env.": (
        "服务器地址不含用户名、密码、查询或片段：密钥请用 --api-key-env。",
        "伺服器位址不含使用者名稱、密碼、查詢或片段：金鑰請用 --api-key-env。",
    ),
    "A server's address ends at its port or with /v1, not with {path}.": (
        "服务器地址以端口或 /v1 结尾，而不是 {path}。",
        "伺服器位址以連接埠或 /v1 結尾，而不是 {path}。",
    ),
    (
        "The server at {name} gives neither token ids nor a tokenizer, so that nothing can be counted: take a vLLM "
        "that knows return_token_ids."
    ): (
        "{name} 的服务器既不给词元编号也没有分词器，无法计数：请用支持 return_token_ids 的 vLLM。",
        "{name} 的伺服器既不給詞元編號也沒有分詞器，無法計數：請用支援 return_token_ids 的 vLLM。",
    ),
    "The server at {name} ended its answer in the middle: see what it logged, and run again.": (
        "{name} 的服务器中途结束了回答：请查看其日志，再运行一次。",
        "{name} 的伺服器中途結束了回答：請查看其記錄，再執行一次。",
    ),
    "The server at {name} answers {path} with more than 16 MiB: see whether that is the right port.": (
        "{name} 的服务器对 {path} 的回答超过 16 MiB：请确认端口是否正确。",
        "{name} 的伺服器對 {path} 的回答超過 16 MiB：請確認連接埠是否正確。",
    ),
    ("The server at {name} was silent for {seconds} s: see whether it is busy, or give it longer with --timeout."): (
        "{name} 的服务器 {seconds} 秒没有回应：请看它是否繁忙，或用 --timeout 给更长时间。",
        "{name} 的伺服器 {seconds} 秒沒有回應：請看它是否繁忙，或用 --timeout 給更長時間。",
    ),
    "The connection to {name} failed ({why}): see whether the server runs and is still reachable.": (
        "与 {name} 的连接失败（{why}）：请确认服务器在运行且可以连接。",
        "與 {name} 的連線失敗（{why}）：請確認伺服器在執行且可以連線。",
    ),
    "The server at {name} reports an error ({what}): see what it logged, and run again.": (
        "{name} 的服务器报告错误（{what}）：请查看其日志，再运行一次。",
        "{name} 的伺服器回報錯誤（{what}）：請查看其記錄，再執行一次。",
    ),
    (
        "The server at {name} sent what no OpenAI-compatible server sends ({what}): see whether that is the right port."
    ): (
        "{name} 的服务器发来了 OpenAI 兼容服务器不会发送的内容（{what}）：请确认端口是否正确。",
        "{name} 的伺服器傳來了 OpenAI 相容伺服器不會傳送的內容（{what}）：請確認連接埠是否正確。",
    ),
    "The server at {name} does not take this {setting} ({what}): leave it off.": (
        "{name} 的服务器不接受这个 {setting}（{what}）：请不要设置。",
        "{name} 的伺服器不接受這個 {setting}（{what}）：請不要設定。",
    ),
    "The server at {name} wants a key: put it in an environment variable and name that with --api-key-env.": (
        "{name} 的服务器要求密钥：请放入环境变量，并用 --api-key-env 指明。",
        "{name} 的伺服器要求金鑰：請放入環境變數，並用 --api-key-env 指明。",
    ),
    "The server at {name} does not take the key: see what the variable that --api-key-env names holds.": (
        "{name} 的服务器不接受所给的密钥：请查看 --api-key-env 所指的环境变量中是什么。",
        "{name} 的伺服器不接受所給的金鑰：請查看 --api-key-env 所指的環境變數中是什麼。",
    ),
    "The server at {name} has no {path}: see whether an OpenAI-compatible server has that port.": (
        "{name} 的服务器没有 {path}：请确认该端口上是否为 OpenAI 兼容服务器。",
        "{name} 的伺服器沒有 {path}：請確認該連接埠上是否為 OpenAI 相容伺服器。",
    ),
    "The server at {name} does not know {path} or this model ({what}): see what it serves at /v1/models.": (
        "{name} 的服务器不认识 {path} 或该模型（{what}）：请查看 /v1/models。",
        "{name} 的伺服器不認識 {path} 或該模型（{what}）：請查看 /v1/models。",
    ),
    "The server at {name} takes no more requests for now ({what}): wait a little, and run again.": (
        "{name} 的服务器暂时不再接受请求（{what}）：请稍候再运行。",
        "{name} 的伺服器暫時不再接受請求（{what}）：請稍候再執行。",
    ),
    "The server at {name} sends on to another address, which is not followed: name that address itself.": (
        "{name} 的服务器转到另一地址，本程序不跟随：请直接写那个地址。",
        "{name} 的伺服器轉到另一位址，本程式不跟隨：請直接寫那個位址。",
    ),
    "The server at {name} failed with status {status} ({what}): see what it logged, and run again.": (
        "{name} 的服务器失败，状态 {status}（{what}）：请查看其日志，再运行一次。",
        "{name} 的伺服器失敗，狀態 {status}（{what}）：請查看其記錄，再執行一次。",
    ),
    (
        "The server at {name} refuses the request with status {status} ({what}): see what it logged, or change the "
        "request."
    ): (
        "{name} 的服务器拒绝请求，状态 {status}（{what}）：请查看其日志，或换一个请求。",
        "{name} 的伺服器拒絕請求，狀態 {status}（{what}）：請查看其記錄，或換一個請求。",
    ),
    "The server at {name} gave up the answer ({why}): see what it logged.": (
        "{name} 的服务器放弃了回答（{why}）：请查看其日志。",
        "{name} 的伺服器放棄了回答（{why}）：請查看其記錄。",
    ),
    "The server at {name} sends more than it was asked for: take one that keeps to max_tokens.": (
        "{name} 的服务器发送的超过了要求：请用遵守 max_tokens 的服务器。",
        "{name} 的伺服器傳送的超過了要求：請用遵守 max_tokens 的伺服器。",
    ),
}

ENGLISH, SIMPLIFIED, TRADITIONAL = ({key: three[i] for key, three in WORDS.items()} for i in range(3))
